/** As many are sent at the same time; others wait here, where they cost the service nothing. */
const atOnce = 6
const mostTries = 5

const drop = document.getElementById('drop')
const list = document.getElementById('pictures')
const summary = document.getElementById('summary')
const template = document.getElementById('picture')
const waiting = []
let sending = 0
let done = 0
let added = 0

function add(files) {
  for (const file of files) {
    const item = template.content.firstElementChild.cloneNode(true)
    const [image, name, state, cancel] = ['img', 'h2', '.state', 'button'].map((selector) =>
      item.querySelector(selector),
    )
    const picture = { file, item, state, cancelled: new AbortController() }
    image.src = URL.createObjectURL(file)
    image.addEventListener('load', () => URL.revokeObjectURL(image.src))
    image.addEventListener('error', () => image.remove()) // none that a browser can show
    name.textContent = file.name
    state.textContent = 'waits'
    cancel.addEventListener('click', () => {
      picture.cancelled.abort()
      state.textContent = 'cancelled' // at once, also where it still waits for its turn
      cancel.disabled = true
    })
    list.prepend(item)
    waiting.push(picture)
    added++
  }
  next()
}

function next() {
  while (sending < atOnce && waiting.length > 0) {
    sending++
    void classify(waiting.shift()).finally(() => {
      sending--
      done++
      next()
    })
  }
  summary.textContent = added === 0 ? '' : `${done} of ${added} done`
}

async function classify({ file, item, state, cancelled: { signal } }) {
  const begun = performance.now()
  try {
    signal.throwIfAborted()
    if (file.size > Number(drop.dataset.maxBytes))
      throw new Error(`larger than ${Math.round(Number(drop.dataset.maxBytes) / 2 ** 20)} MiB`)
    state.textContent = 'is classified'
    const { classes } = await send(file, signal, (text) => (state.textContent = text))
    item.querySelector('.classes').replaceChildren(...classes.map(rowOf))
    state.textContent = `${Math.round(performance.now() - begun)} ms`
    item.dataset.state = 'done'
  } catch (error) {
    state.textContent = signal.aborted ? 'cancelled' : error.message
    item.dataset.state = 'failed'
  }
  item.querySelector('button').remove()
}

/** Comes back as often as it is told to, when it is told to. */
async function send(file, signal, tell) {
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted()
    const response = await fetch('classify', {
      method: 'POST',
      body: file,
      headers: { 'content-type': file.type || 'application/octet-stream' },
      signal,
    })
    const answer = await response.json().catch(() => ({ error: `it was answered with ${response.status}` })) // of a proxy, say
    if (response.ok) return answer
    const after = response.headers.get('retry-after')
    if (after === null || tries === mostTries) throw new Error(answer.error)
    tell(`the service is busy, again in ${after} s`)
    await pause(answer.retryAfterMs ?? 1000 * Number(after), signal)
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}

function rowOf({ label, score }) {
  const row = document.createElement('li')
  const [name, bar, share] = ['span', 'i', 'b'].map((tag) => row.appendChild(document.createElement(tag)))
  name.textContent = name.title = label
  bar.style.setProperty('--share', Math.max(0, Math.min(1, score)))
  share.textContent = `${(100 * score).toFixed(score > 0.1 ? 0 : 1)} %`
  return row
}

for (const id of ['choose', 'camera']) {
  const input = document.getElementById(id)
  input.addEventListener('change', () => {
    add(input.files)
    input.value = '' // the same may be chosen again
  })
}
for (const type of ['dragenter', 'dragover', 'dragleave', 'drop']) {
  document.addEventListener(type, (event) => {
    event.preventDefault() // else the browser opens it
    drop.classList.toggle('over', type === 'dragenter' || type === 'dragover')
    if (type === 'drop') add(event.dataTransfer.files)
  })
}
