import { readFileSync } from 'node:fs'

const files = [
  ['/', 'index.html', 'text/html; charset=utf-8'],
  ['/page.js', 'page.js', 'text/javascript; charset=utf-8'],
  ['/page.css', 'page.css', 'text/css; charset=utf-8'],
]

/** Pictures are shown from memory (`blob:`), and the icon is none (`data:`); everything else comes from here. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Serves the page, which is told what it may send. */
export function addPage(service, { imageTypes, maxBytes }) {
  const read = (name) => readFileSync(new URL(`public/${name}`, import.meta.url), 'utf8')
  for (const [path, name, type] of files) {
    const text = read(name).replace('%TYPES%', imageTypes.join(',')).replace('%MAX_BYTES%', String(maxBytes))
    service.get(path, (_, reply) =>
      reply
        .headers({
          'content-security-policy': policy,
          'x-content-type-options': 'nosniff',
          'cache-control': 'no-cache',
        })
        .type(type)
        .send(text),
    )
  }
}
