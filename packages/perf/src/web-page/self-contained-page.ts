import { createHash } from 'node:crypto'
import { Html, html } from './html.ts'
import { pageScript, plottingLibrary } from './page-script.ts'
import { pageStyle } from './page-style.ts'

/** What a page is made of. */
interface PageParts {
  readonly title: string
  readonly body: Html
  /** The module that runs in it, by its path in `src/`, without `.ts`. */
  readonly entry: string
  /** More style, after that of all pages. */
  readonly style?: string
  /** It may ask where it came from; else it asks nobody for anything. */
  readonly asksItsServer?: boolean
}

/** A page, and the policy that is in it, too, for those who send it. */
export interface SelfContainedPage {
  readonly text: string
  readonly policy: string
}

/** One HTML document that holds all it needs: script, style and what is drawn with. */
export function selfContainedPage({
  title,
  body,
  entry,
  style = '',
  asksItsServer = false,
}: PageParts): SelfContainedPage {
  const library = plottingLibrary()
  const scripts = [library.script, pageScript(entry)]
  const styles = [library.style, pageStyle + style]
  // Whatever a model is called: nothing runs but these two, and nothing is asked of anybody else.
  const policy = `default-src 'none'; script-src ${scripts.map(hashOf).join(' ')}; style-src ${styles.map(hashOf).join(' ')};${asksItsServer ? " connect-src 'self';" : ''} base-uri 'none'; form-action 'none'`
  const { text } = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${policy}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        ${styles.map(
          (each) =>
            html`<style>
              ${new Html(each)}
            </style>`,
        )}
      </head>
      <body>
        ${body}
        ${scripts.map(
          (script) =>
            html`<script>
              ${new Html(script)}
            </script> `,
        )}
      </body>
    </html> `
  return { text, policy }
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}
