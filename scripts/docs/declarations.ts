// What the interfaces of src/ declare: names, types and doc comments of their properties.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { API, SymbolFlags, type Project } from 'typescript/unstable/sync'
import {
  isInterfaceDeclaration,
  isPropertySignatureDeclaration,
  isTypeAliasDeclaration,
  isTypeLiteralNode,
  type InterfaceDeclaration,
  type PropertySignatureDeclaration,
  type TypeAliasDeclaration,
} from 'typescript/unstable/ast'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Prints what an alias stands for. */
const inTypeAlias = 2 ** 23

/** A property of an interface. */
export interface Property {
  readonly name: string
  /** As it is written, without `readonly` and `undefined`. */
  readonly type: string
  readonly isOptional: boolean
  /** Markdown. */
  readonly doc: string
  /** Properties of an object that is declared in place. */
  readonly nested: readonly Property[]
}

/** Reads declarations of `src/`. Close it after use: it runs the compiler as a program of its own. */
export class Declarations {
  readonly #api = new API({ cwd: root })
  readonly #project: Project
  /** Paths and texts of all sources. */
  readonly #sources = (readdirSync(`${root}src`, { recursive: true }) as string[])
    .filter((path) => path.endsWith('.ts'))
    .map((path) => ({ path: `${root}src/${path}`, text: readFileSync(`${root}src/${path}`, 'utf8') }))

  constructor() {
    const snapshot = this.#api.updateSnapshot({ openProjects: [`${root}tsconfig.json`] })
    this.#project = snapshot.getProjects()[0]!
  }

  close(): void {
    this.#api.close()
  }

  /** The properties of an interface or type, inherited ones last. Those of other packages are left out. */
  propertiesOf(name: string): Property[] {
    const { checker } = this.#project
    const type = checker.getDeclaredTypeOfSymbol(checker.getSymbolAtLocation(this.#find(name).name)!)
    return checker.getPropertiesOfType(type).flatMap((symbol) => {
      const node = symbol.declarations[0]?.resolve(this.#project)
      const isOwn = node?.getSourceFile().fileName.startsWith(`${root}src/`) === true
      return isOwn && isPropertySignatureDeclaration(node)
        ? [{ ...read(node), isOptional: (symbol.flags & SymbolFlags.Optional) !== 0 }]
        : []
    })
  }

  /** The type behind a name, if that is short: literals, or a list. */
  shortType(name: string): string | undefined {
    const alias = new RegExp(`^export type ${name} =([^{};=<>]*?)\\n(?=\\n|/|export )`, 'm')
    const [text] = this.#sources.flatMap(({ text }) => alias.exec(text)?.[1] ?? [])
    if (text === undefined || text.includes('keyof')) return undefined
    if (!text.includes('typeof'))
      return text
        .replace(/\breadonly /g, '')
        .replace(/\s+/g, ' ')
        .trim()
        .replace(/^\| /, '')
    const { type } = this.#find(name) as TypeAliasDeclaration
    const { checker } = this.#project
    return checker.typeToString(checker.getTypeFromTypeNode(type)!, type, inTypeAlias).replaceAll('"', "'")
  }

  #find(name: string): InterfaceDeclaration | TypeAliasDeclaration {
    const declares = (prefix: string) => {
      const pattern = new RegExp(`^${prefix}(interface|type) ${name}\\b`, 'm')
      return this.#sources.filter(({ text }) => pattern.test(text))
    }
    const exported = declares('export ')
    const found = exported.length === 0 ? declares('') : exported
    if (found.length !== 1) throw new Error(`${name} is declared by ${found.length} files`)
    const declaration = this.#project.program
      .getSourceFile(found[0]!.path)!
      .statements.filter(
        (statement) => isInterfaceDeclaration(statement) || isTypeAliasDeclaration(statement),
      )
      .find((statement) => statement.name.text === name)
    if (declaration === undefined) throw new Error(`${name} is not at the top of ${found[0]!.path}`)
    return declaration
  }
}

function read(node: PropertySignatureDeclaration): Property {
  const { text } = node.getSourceFile()
  const type = node.type!
  return {
    name: node.name.getText(),
    type: withoutParameters(node, type.getText())
      .replace(/\breadonly /g, '')
      .replace(/(?<=[\w\])>'])\n\s*(?=\w+\??:)/g, '; ')
      .replace(/\s+/g, ' ')
      .replace(/^\| /, '')
      .replace(/ \| undefined$/, ''),
    isOptional: node.postfixToken !== undefined,
    doc: words(text.slice(node.pos, node.getStart())),
    nested: isTypeLiteralNode(type) ? type.members.filter(isPropertySignatureDeclaration).map(read) : [],
  }
}

/** The type with what each type parameter of its interface extends. */
function withoutParameters({ parent }: PropertySignatureDeclaration, type: string): string {
  const parameters = isInterfaceDeclaration(parent) ? [...(parent.typeParameters ?? [])] : []
  return parameters.reduce(
    (type, { name, constraint }) =>
      constraint === undefined
        ? type
        : type.replace(new RegExp(`\\b${name.text}\\b`, 'g'), constraint.getText()),
    type,
  )
}

/** The Markdown of the last doc comment in front of a declaration. */
function words(trivia: string): string {
  const comment = /\/\*\*((?:(?!\*\/)[^])*)\*\/\s*$/.exec(trivia)?.[1] ?? ''
  return comment
    .replace(/^[ \t]*\*? ?/gm, '')
    .replace(/(?<=\S)\n[ \t]*(?!\n|- |\||[ \t])/g, ' ')
    .trim()
}
