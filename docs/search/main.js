// The search of MkDocs fetches its index, which a browser refuses for pages in a folder. Here the index is a script (docs/hooks.py).
function load(name, then) {
  const script = document.createElement("script");
  script.src = base_url + "/search/" + name;
  script.onload = then;
  document.head.append(script);
}

function show(found) {
  const list = document.getElementById("mkdocs-search-results");
  list.replaceChildren(...found.map(({location, title, text}) => {
    const article = document.createElement("article");
    article.innerHTML = "<h3><a></a></h3><p></p>";
    article.querySelector("a").href = base_url + "/" + location;
    article.querySelector("a").textContent = title;
    article.querySelector("p").textContent = text.slice(0, 200);
    return article;
  }));
  if (!found.length) list.textContent = "No results found";
}

const input = document.getElementById("mkdocs-search-query");
if (input) load("lunr.js", () => load("search_index.js", () => {
  const pages = new Map(SEARCH_INDEX.docs.map(page => [page.location, page]));
  const index = lunr(function () {
    this.ref("location");
    this.field("title", {boost: 10});
    this.field("text");
    SEARCH_INDEX.docs.forEach(page => this.add(page));
  });
  const words = () => input.value.split(/[^\p{L}\p{N}_]+/u).filter(Boolean);  // lunr reads - and : as operators
  const search = () => show(words().length ? index.search(words().join(" ")).map(hit => pages.get(hit.ref)) : []);
  input.value = new URLSearchParams(location.search).get("q") || "";
  input.addEventListener("input", search);
  search();
}));
