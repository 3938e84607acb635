// Writes the generated parts of the pages in docs/reference: npm run docs:reference
// A part stands between `<!-- options: NAME -->`, or another kind, and `<!-- end -->`; what is around it is written by hand.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Declarations, type Property } from './declarations.ts'
import { metricsByStatistic } from './metrics.ts'

const folder = fileURLToPath(new URL('../../docs/reference/', import.meta.url))
const part = /^(<!-- (\w+): (\w+)(?: except (\w+))?(?: as (\S+))? -->\n)[^]*?^<!-- end -->$/gm

/** Where the options of an interface are listed. */
interface Section {
  readonly page: string
  readonly anchor: string
}

/** The text of each page with its generated parts as the sources have them now. */
export function referencePages(): Map<string, string> {
  const pages = readdirSync(folder).map((page) => [page, readFileSync(folder + page, 'utf8')] as const)
  const declarations = new Declarations()
  try {
    const reference = new Reference(declarations, sectionsOf(pages))
    return new Map(
      pages.map(([page, text]) => [
        page,
        text.replace(
          part,
          (_, head: string, kind: string, name: string, without = '', prefix = '') =>
            `${head}\n${reference.render(page, kind, name, without, prefix)}\n\n<!-- end -->`,
        ),
      ]),
    )
  } finally {
    declarations.close()
  }
}

/** Interfaces by name, each under the heading above its part. */
function sectionsOf(pages: readonly (readonly [page: string, text: string])[]): Map<string, Section> {
  const sections = new Map(
    pages.flatMap(([page, text]) =>
      [...text.matchAll(part)].flatMap(({ index, 3: name }): [string, Section][] => {
        const heading = [...text.slice(0, index).matchAll(/^#+ (.*)$/gm)].at(-1)?.[1] ?? ''
        return name === undefined ? [] : [[name, { page, anchor: slug(heading) }]]
      }),
    ),
  )
  return sections.set('ImageInput', sections.get('ImageOptions')!) // a part of them
}

/** The anchor of a heading. */
export function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-')
}

class Reference {
  readonly #declarations: Declarations
  readonly #sections: ReadonlyMap<string, Section>

  constructor(declarations: Declarations, sections: ReadonlyMap<string, Section>) {
    this.#declarations = declarations
    this.#sections = sections
  }

  /** @param without an interface whose properties are left out. */
  render(page: string, kind: string, name: string, without: string, prefix: string): string {
    const others = without === '' ? [] : this.#declarations.propertiesOf(without).map(({ doc }) => doc)
    const properties = this.#declarations
      .propertiesOf(name)
      .filter(({ doc, type }) => !others.includes(doc) && type !== 'never' && type !== 'undefined')
    switch (kind) {
      case 'options':
        return this.#options(page, name, properties, prefix)
      case 'fields':
        return this.#fields(page, properties)
      case 'statistics':
        return this.#statistics(page, name === 'EngineStatistics' ? 'engine' : 'model', properties)
      case 'codes':
        return table(
          ['code', 'class', 'when', 'what to do'],
          properties.map(({ name: code, type, doc }) => {
            const [when = '', remedy = ''] = doc.split(/\n\s*\n/)
            return [`\`${code}\``, type.replaceAll("'", ''), when, remedy]
          }),
        )
      case 'names':
        return table(
          ['name', 'meaning'],
          properties.map(({ name, doc }) => [`\`${name}\``, doc]),
        )
      default:
        throw new Error(`${page}: no kind of part is called ${kind}`)
    }
  }

  /** A heading and a paragraph for each option, after links to them. */
  #options(page: string, of: string, properties: readonly Property[], prefix: string): string {
    const requiredFirst = properties.toSorted((a, b) => Number(a.isOptional) - Number(b.isOptional))
    const titled = requiredFirst.map((property) => ({
      property,
      title: prefix === '' ? property.name : `${prefix}.${property.name}`,
    }))
    const links = titled.map(({ property, title }) => `[\`${property.name}\`](#${slug(title)})`)
    const entries = titled.map(({ property, title }) => {
      const { standard, text } = splitDefault(of, property)
      const default_ = standard === null ? 'required' : `default: ${standard}`
      return `### \`${title}\`\n\n${this.#type(page, property)}, ${this.#linked(page, default_)}\n\n${this.#linked(page, text)}`
    })
    return [...(links.length > 5 ? [`${links.join(', ')}.`] : []), ...entries].join('\n\n')
  }

  #fields(page: string, properties: readonly Property[]): string {
    return table(
      ['field', 'type', 'meaning'],
      properties.map((property) => [
        `\`${property.name}\``,
        this.#type(page, property),
        this.#linked(page, property.doc),
      ]),
    )
  }

  #statistics(page: string, of: 'model' | 'engine', properties: readonly Property[]): string {
    const metrics = metricsByStatistic(of)
    const rows = (properties: readonly Property[], above: string): string[][] =>
      properties.flatMap((property) => {
        const path = above + property.name
        const own = [
          `\`${path}\``,
          this.#linked(page, property.doc),
          metrics(path, property.nested.length > 0)
            .map((metric) => `\`${metric}\``)
            .join(' '),
        ]
        return [own, ...rows(property.nested, `${path}.`)]
      })
    return table(['field', 'meaning', 'in Prometheus'], rows(properties, ''))
  }

  /** The type, with links to interfaces that have a section, and the unit that the name says. */
  #type(page: string, { name, type }: Property): string {
    const shown = type.replace(/\b([A-Z]\w+)\b(\[\])?/g, (_, name: string, list = '') => {
      const short = this.#declarations.shortType(name)
      return short === undefined ? name + list : list === '' ? short : `(${short})[]`
    })
    const parts = shown.split(/\b([A-Z]\w+)\b/).map((text, index) => {
      const section = index % 2 === 1 ? this.#sections.get(text) : undefined
      return section === undefined ? text : `\`[\`${text}\`](${this.#link(page, section)})\``
    })
    const unit = Object.entries(units).find(([ending]) => name.endsWith(ending))?.[1]
    return `\`${parts.join('')}\``.replaceAll('``', '') + (unit === undefined ? '' : ` in ${unit}`)
  }

  /** A doc comment, whose links and codes of errors become links. */
  #linked(page: string, text: string): string {
    return text
      .replace(/\{@link (\w+)(\.\w+)?\}/g, (_, name: string, member = '') => {
        const section = this.#sections.get(name)
        return section === undefined
          ? `\`${name}${member}\``
          : `[\`${name}${member}\`](${this.#link(page, section)})`
      })
      .replace(/(?<!\[)`(ERR_\w+)`/g, page === 'errors.md' ? '`$1`' : '[`$1`](errors.md#codes)')
  }

  #link(page: string, { page: to, anchor }: Section): string {
    return to === page ? `#${anchor}` : `${to}#${anchor}`
  }
}

const units = { Ms: 'milliseconds', Us: 'microseconds', Bytes: 'bytes' }

/** The sentence about the default, apart from the others; `null` for a property that has to be given. */
export function splitDefault(
  of: string,
  { name, doc, isOptional }: Property,
): { standard: string | null; text: string } {
  const flat = /(?:^|\s)Default(?: of each)?:?\s+((?:[^.`]|`[^`]*`|\.(?!\s|$))+)\.(?=\s|$)/.exec(doc)
  if (flat === null) {
    if (isOptional) throw new Error(`${of}.${name} does not say what its default is`)
    return { standard: null, text: doc }
  }
  return { standard: flat[1]!.replace(/\s+/g, ' '), text: doc.replace(flat[0], '').trim() }
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(inCell).join(' | ')} |`
  return [line(heads), `|${heads.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}

/** In one line, with paragraphs and lists apart. */
function inCell(text: string): string {
  return text
    .replace(/\n\s*\n\s*/g, '<br>')
    .replace(/\n- /g, '<br>- ')
    .replace(/\s+/g, ' ')
    .replaceAll('|', '\\|')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [page, text] of referencePages()) writeFileSync(folder + page, text)
}
