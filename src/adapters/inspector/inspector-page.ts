import { readFileSync } from 'node:fs'
import { ownFile } from '../../base/own-package.ts'

/** A page, and the policy that is in it, too, for those who send it. */
export interface SelfContainedPage {
  readonly text: string
  readonly policy: string
}

/** The page of an engine, which is filled by what it is told. Its source is packages/perf/src/inspector-page; `npm run build:ts` writes it. */
export function inspectorPage(title: string): SelfContainedPage {
  const { text, policy } = JSON.parse(
    readFileSync(ownFile('adapters/inspector/page.json'), 'utf8'),
  ) as SelfContainedPage
  return { text: text.replaceAll('{{title}}', () => escaped(title)), policy }
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escaped(text: string): string {
  return text.toWellFormed().replace(/[&<>"']/g, (character) => entities[character]!)
}
