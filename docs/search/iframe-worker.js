// The search of the theme runs in a worker, which a browser refuses for pages in a folder. There its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const page = (this.page = frame.contentWindow);
      page.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      page.importScripts = (...urls) => Promise.all(urls.map((url) => this.load(url)));
      this.ready = this.load(url);
    }
    load(src) {
      return new Promise((done) => {
        const script = Object.assign(this.page.document.createElement("script"), {src, onload: done});
        this.page.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.page.dispatchEvent(new MessageEvent("message", {data})));
    }
    terminate() {
      this.page.frameElement.remove();
    }
  };
}
