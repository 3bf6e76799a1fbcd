// Values under the pointer, lines that a click hides, tables that sort and can be copied. Without this script the page is complete.
'use strict'
const all = (selector, root = document) => [...root.querySelectorAll(selector)]
const make = (tag, className, ...content) => {
  const made = Object.assign(document.createElement(tag), { className })
  made.append(...content)
  return made
}
const onPress = (element, act) => {
  element.tabIndex = 0
  element.addEventListener('click', act)
  element.addEventListener('keydown', event => {
    if (event.key === 'Enter' || event.key === ' ') event.preventDefault(act())
  })
}
const shown = new Intl.NumberFormat('en', { maximumSignificantDigits: 5 })

// ---- the box beside the pointer

const box = document.body.appendChild(make('div', 'box'))
box.hidden = true
const follow = (element, rowsAt) => {
  for (const name of ['pointermove', 'pointerdown']) {
    element.addEventListener(name, event => {
      box.replaceChildren(...rowsAt(event))
      box.hidden = !box.firstChild
      const isLeft = event.clientX + 16 + box.offsetWidth < document.documentElement.clientWidth
      box.style.left = `${Math.max(0, event.clientX + (isLeft ? 16 : -16 - box.offsetWidth))}px`
      box.style.top = `${Math.max(0, event.clientY - box.offsetHeight - 8)}px`
    })
  }
  element.addEventListener('pointerleave', () => { box.hidden = true })
}

// ---- charts: the path of a line has its points in units of the area, whose attributes have the ends of the axes

for (const drawing of all('.drawing')) {
  const area = drawing.querySelector('.area'), width = +area.getAttribute('viewBox').split(' ')[2]
  const [kind, ...ends] = area.dataset.x.split(' '), [left, right] = ends.map(Number)
  const [low, lowAt, high, highAt] = area.dataset.y.split(' ').map(Number)
  const placeAt = x => kind === 'date'
    ? new Date(864e5 * (left + x / width * Math.max(right - left, 1))).toISOString().slice(0, 10)
    : shown.format(left * Math.max(right / left, 1.01) ** (x / width))
  const leaders = all('.leader', drawing), names = all('.name', drawing)
  const lines = all('.line', area).reverse().map((path, i) => { // the first line is drawn last
    const numbers = path.getAttribute('d').match(/-?[\d.]+/g).map(Number)
    const points = numbers.flatMap((x, i) => i % 2 || i + 1 === numbers.length ? [] : [[x, numbers[i + 1]]])
    return { points, isDot: path.matches('.dot'), name: names[i], parts: [path, ...leaders.slice(2 * i, 2 * i + 2)] }
  })
  const axis = drawing.querySelector('.axis').textContent, rule = drawing.appendChild(make('div', 'rule'))
  rule.hidden = true
  drawing.setAttribute('role', 'group')
  drawing.addEventListener('pointerleave', () => { rule.hidden = true })
  follow(drawing, event => {
    const place = area.ownerSVGElement.getBoundingClientRect(), x = (event.clientX - place.left) / place.width * width
    const heightOf = ({ points, isDot }) => {
      const i = points.findIndex(([at]) => at >= x), [[a, b], [c, d]] = [points[Math.max(i - 1, 0)], points[Math.max(i, 0)]]
      if (isDot) return Math.abs(a - x) < width / 25 ? b : NaN
      return i < 1 ? NaN : b + (d - b) * (x - a) / (c - a)
    }
    const near = lines.filter(line => !line.name.matches('.off')).map(line => ({ ...line, y: heightOf(line) }))
      .filter(({ y }) => !isNaN(y)).sort((a, b) => a.y - b.y)
    rule.hidden = !near.length
    rule.style.left = `${100 * x / width}%`
    if (!near.length) return []
    return [near[0].isDot ? axis : `${axis}: ${placeAt(x)}`, ...near.map(({ name, isDot, y, points: [[at]] }) => {
      const value = make('b', '', shown.format(low + (high - low) * (y - lowAt) / (highAt - lowAt)))
      return make('div', name.className.replace('name', ''), value, ` ${name.textContent}`, isDot ? `, ${placeAt(at)}` : '')
    })]
  })
  for (const { name, parts } of lines) {
    name.setAttribute('role', 'button')
    name.title += ': a click hides or shows it'
    onPress(name, () => {
      name.setAttribute('aria-pressed', name.classList.toggle('off'))
      parts.forEach(part => part.classList.toggle('hidden'))
    })
  }
}

// ---- coloured text: its attribute has the bits of each letter

for (const text of all('.passage')) {
  const bits = text.dataset.bits.split(' ')
  for (const span of all('span', text)) {
    const letters = [...span.textContent], own = bits.splice(0, letters.length), range = document.createRange()
    follow(span, ({ clientX: x, clientY: y }) => {
      let end = 0
      const i = letters.findIndex(letter => {
        range.setStart(span.firstChild, end)
        range.setEnd(span.firstChild, end += letter.length)
        return [...range.getClientRects()].some(at => at.left <= x && x <= at.right && at.top <= y && y <= at.bottom)
      })
      return i < 0 ? [] : [make('b', '', own[i]), ` bits: ${letters[i]}`]
    })
  }
}

// ---- tables

const isNone = cell => cell.textContent === '–'
const bare = cell => cell.matches('.n') ? cell.textContent.replaceAll(',', '') : cell.textContent
const csv = table => [...table.rows].map(row => [...row.cells].map(cell => {
  const text = isNone(cell) ? '' : bare(cell).replace(/^(?=[=@]|[+-](?![\d.]))/, "'") // else a spreadsheet finds a formula
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}).join(',')).join('\n') + '\n'
for (const figure of all('figure.table')) {
  const table = figure.querySelector('table'), button = make('button', 'copy', 'Copy as CSV'), heads = all('thead th', table)
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(csv(table))
    button.textContent = 'Copied'
  })
  figure.append(button)
  heads.forEach((head, column) => onPress(head, () => {
    const sign = head.ariaSort === 'ascending' ? -1 : 1
    heads.forEach(each => { each.ariaSort = each === head ? ['descending', '', 'ascending'][sign + 1] : null })
    const order = (a, b) => isNone(a) - isNone(b) || sign * (a.matches('.n')
      ? (parseFloat(bare(a)) || 0) - (parseFloat(bare(b)) || 0) : a.textContent.localeCompare(b.textContent))
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => order(a.cells[column], b.cells[column])))
  }))
}

// ---- print: everything is open

let closed = []
addEventListener('beforeprint', () => { (closed = all('details:not([open])')).forEach(each => { each.open = true }) })
addEventListener('afterprint', () => closed.forEach(each => { each.open = false }))
