import { fork } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type * as proveRowsModule from '../../src/onnx/row-proof/prove-rows.ts'
import { readGraph } from '../../src/onnx/row-proof/read-graph.ts'
import { parseGraph, type GraphOutput } from './graph-text.ts'
import { derivedCases } from './derived-cases.ts'
import { truthsOf } from './derived-truths.ts'
import { allCases } from './operator-cases.ts'
import { proofOf, questionOf, type KnownDims } from './proof.ts'
import { GraphSource } from './random-graphs.ts'
import { equivalentChanges } from './equivalent-changes.ts'
import { truthOf } from './truth.ts'

/**
 * Breaks the proof on purpose, one line at a time, and looks whether the operator cases and random graphs notice:
 *
 *     npx tsx test/row-proof/broken-rules.ts [--graphs 500] [--only indexing.ts] [--every 1]
 *
 * Changes that change no verdict are listed in equivalent-changes.ts, with the reason. A broken rule is caught where it proves what ONNX Runtime refutes (refuted), does not prove what was proved, or does not say that rows
 * meet where it said so (missed), or throws. What nothing notices is listed, with its line.
 */
const sources = fileURLToPath(new URL('../../src/onnx/row-proof', import.meta.url))
const passing = 'rule lets all through'
/** Not under version control. What prove-rows.ts needs lies in its own folder. */
const broken = fileURLToPath(new URL('../../build/broken-rules', import.meta.url))
const perChild = 120
/** Of derived cases that fail for one reason at one operator. */
const alikeKept = 4

/** One change of one line. */
interface Mutant {
  readonly file: string
  readonly line: number
  readonly kind: string
  /** Which one of this kind in its line, from 1. */
  readonly place: number
  readonly before: string
  readonly after: string
}

type Verdict = proveRowsModule.RowProof['rows']

/** What came of a graph with the rules as they are, and has to come of it again; but for `unknown`, of which anything may come. */
interface Expected {
  readonly text: string
  /** Where they are not those of the text. */
  readonly outputs?: readonly GraphOutput[]
  readonly known: KnownDims
  readonly verdict: Verdict
  /** Whether a proof would be wrong. */
  readonly differs: boolean
}

type Caught = 'refuted' | 'missed' | 'threw'

// What is changed

const isCheck =
  /\b(apart|rowsOnly|oneToOne|checkOwn|checkColumns|dependent|dependsOnCount|dependsOnPlaces|ordersDiffer|picksByPlaces|putsByPlaces|notFollowed|wrong|fixedBeside)\(/

/** All changes of a line. */
function changesOf(line: string): Pick<Mutant, 'kind' | 'place' | 'after'>[] {
  const changes: Pick<Mutant, 'kind' | 'place' | 'after'>[] = []
  const add = (kind: string, after: string) => {
    if (after === line || changes.some((other) => other.after === after)) return
    changes.push({ kind, place: 1 + changes.filter((other) => other.kind === kind).length, after })
  }
  /** One change for each place where something stands. */
  const eachPlace = (kind: string, of: RegExp, to: (found: RegExpMatchArray) => string) => {
    for (const found of line.matchAll(of))
      add(kind, line.slice(0, found.index) + to(found) + line.slice(found.index + found[0].length))
  }
  if (
    /^\s*((else )?if \(|for \(|apart\(|rowsOnly\(|oneToOne\(|checkOwn\(|checkColumns\()/.test(line) &&
    isCheck.test(line) &&
    !/\{\s*$/.test(line)
  )
    add('check dropped', '')
  add(
    'check dropped',
    line.replace(/^(\s*(?:return|const [\w: ]+ =) )(.+?) \? (.+) : (?:dependent|notFollowed)\(.*\)$/, '$1$3'),
  )
  if (/\bif \(/.test(line) && isCheck.test(line)) {
    eachPlace('condition weakened', /(?<=\(|\|\| )[^()|]+(?:\([^()]*\))?[^()|]* \|\| /g, () => '')
    eachPlace('condition weakened', / \|\| [^()|]+(?:\([^()]*\))?[^()|]*(?=\))/g, () => '')
    if (!changes.some(({ kind }) => kind === 'check dropped'))
      eachPlace(
        'check dropped',
        /\bif \((.+)\) (?=(?:return )?(?:dependent|notFollowed|throw))/g,
        ([, condition]) => `if (false && (${condition})) `,
      )
  }
  if (/\b(axis|rows|place|axes|stride|bound|inner|outer)\b/.test(line)) {
    eachPlace('comparison turned', / (===|!==) /g, ([, sign]) => ` ${sign === '===' ? '!==' : '==='} `)
    eachPlace(
      'comparison off by one',
      / (<|<=|>|>=) /g,
      ([, sign]) => ` ${sign!.length === 1 ? `${sign}=` : sign![0]} `,
    )
    eachPlace('axis off by one', / [-+] 1\b/g, () => '')
    eachPlace('other axis', /(?<=\[|axis: |axis, )0(?=\]|,| )/g, () => '1')
    eachPlace('other axis', /range\((\d), /g, ([, from]) => `range(${Number(from) + 1}, `)
  }
  eachPlace('any value taken as data', /\bop\.(data|optional)\(/g, () => 'op.raw(')
  eachPlace('rows taken as shared', /\bop\.shared\(/g, () => 'op.data(')
  eachPlace('rows lost or kept', /rows: of\.rows(?= \})/g, () => 'rows: null')
  return changes
}

function mutantsOf(only: string | undefined): Mutant[] {
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter(
    (file) =>
      file.endsWith('.ts') &&
      !/(read-graph|message-reader|check-scopes|onnx-model|index)\.ts$/.test(file) &&
      (only === undefined || file.includes(only)),
  )
  return files.flatMap((file) => {
    let inComment = false
    return readFileSync(join(sources, file), 'utf8')
      .split('\n')
      .flatMap((before, index) => {
        if (before.trimStart().startsWith('/**')) inComment = true
        const isText =
          inComment || /^\s*(\/\/|import |export (type|interface)|interface |readonly )/.test(before)
        if (before.includes('*/')) inComment = false
        return isText ? [] : changesOf(before).map((change) => ({ file, line: index + 1, before, ...change }))
      })
  })
}

/** Rules that let rows through whatever the axis: the entry of each operator in turn, but for those that do so rightly. */
function passingRules(operators: readonly string[]): Mutant[] {
  return operators.map((operator) => ({
    file: 'prove-rows.ts',
    line: 0,
    kind: passing,
    place: 1,
    before: operator,
    after: operator,
  }))
}

/** Source of a rule that gives the first of its inputs that has rows. */
function passingRule(operator: string): string {
  return `
;(rules as any)['${operator}'] = (op: { inputs: readonly any[]; outputCount: number; value(index: number): unknown }) => {
  for (const index of op.inputs.keys()) op.value(index)
  return Array.from({ length: op.outputCount }, () => op.inputs.find((value) => value?.kind === 'tensor' && value.rows !== null) ?? op.inputs[0])
}
`
}

/** Why a change is none. */
function equivalenceOf({ file, before, kind, place }: Mutant): string | null {
  const found = equivalentChanges[file]?.find(
    ({ line, changes }) => line === before.trim() && changes.includes(nameOf(kind, place)),
  )
  return found?.why ?? null
}

function nameOf(kind: string, place: number): string {
  return place === 1 ? kind : `${kind} ${place}`
}

// What notices

class Judge {
  readonly #graphs: readonly (Expected & {
    model: NonNullable<ReturnType<typeof readGraph>>
    question: proveRowsModule.RowQuestion
  })[]

  constructor(expected: readonly Expected[]) {
    const models = new Map<string, NonNullable<ReturnType<typeof readGraph>>>()
    // Refutations first: nothing else is asked for where there is one.
    this.#graphs = expected
      .toSorted((a, b) => Number(b.differs) - Number(a.differs))
      .map((each) => {
        const graph = parseGraph(each.text)
        const model = models.get(each.text) ?? readGraph(graph.model)!
        models.set(each.text, model)
        return {
          ...each,
          model,
          question: questionOf({ ...graph, outputs: each.outputs ?? graph.outputs }, each.known),
        }
      })
  }

  judge({ proveRows }: typeof proveRowsModule): { caught: Caught; by: string } | null {
    let missed: { caught: Caught; by: string } | null = null
    try {
      for (const { text, model, question, verdict, differs } of this.#graphs) {
        if (!differs && missed !== null) return missed
        const own = proveRows(model, question).rows
        if (own === 'independent' && differs) return { caught: 'refuted', by: text }
        if (own !== verdict && verdict !== 'unknown' && !(own === 'independent' && verdict === 'dependent'))
          missed ??= { caught: 'missed', by: text }
      }
    } catch (error) {
      return { caught: 'threw', by: String(error) }
    }
    return missed
  }
}

async function judgeMutant(
  judge: Judge,
  { file, line, after, kind }: Mutant,
): Promise<ReturnType<Judge['judge']>> {
  mkdirSync(broken, { recursive: true })
  const folder = mkdtempSync(join(broken, 'rules-'))
  try {
    cpSync(sources, join(folder, 'row-proof'), { recursive: true })
    const path = join(folder, 'row-proof', file)
    const text = readFileSync(path, 'utf8')
    writeFileSync(
      path,
      kind === passing
        ? text + passingRule(after)
        : text
            .split('\n')
            .with(line - 1, after)
            .join('\n'),
    )
    return judge.judge(
      (await import(pathToFileURL(join(folder, 'row-proof/prove-rows.ts')).href)) as typeof proveRowsModule,
    )
  } catch (error) {
    return { caught: 'threw', by: String(error) }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** What is known of graphs: operator cases, some of those derived from them, and random graphs; each by its runs, and by the proof as it is. */
async function expectedOf(graphs: number): Promise<Expected[]> {
  const expected: Expected[] = allCases.flatMap(({ text, expected: wanted }) =>
    verdictsOf(text, undefined, wanted === 'dependent'),
  )
  expected.push(...(await expectedOfDerived()))
  const source = await GraphSource.open()
  for (let seed = 100_000; seed < 100_000 + graphs; seed++) {
    const text = source.graph(seed)
    const { answer } = await truthOf(parseGraph(text), seed)
    if (answer === 'differs' || answer === 'same')
      expected.push(...verdictsOf(text, undefined, answer === 'differs'))
  }
  return expected
}

/** Some of those for which the proof has one reason. */
async function expectedOfDerived(): Promise<Expected[]> {
  const alike = new Map<string, number>()
  return (await truthsOf(derivedCases().map(({ text }) => text))).flatMap(
    ({ text, output, truth }): Expected[] => {
      if (truth.answer !== 'differs' && truth.answer !== 'same') return []
      return verdictsOf(text, [output], truth.answer === 'differs', (verdict, node, reason) => {
        const key =
          verdict === 'independent'
            ? text
            : `${verdict} ${node?.split(' ')[0]} ${reason.replaceAll(/'[^']*'|\d/g, '')}`
        alike.set(key, (alike.get(key) ?? 0) + 1)
        return alike.get(key)! <= alikeKept
      })
    },
  )
}

function verdictsOf(
  text: string,
  outputs: readonly GraphOutput[] | undefined,
  differs: boolean,
  isKept: (verdict: Verdict, node: string | null, reason: string) => boolean = () => true,
): Expected[] {
  return (['all', 'none'] as const).flatMap((known) => {
    const graph = parseGraph(text)
    try {
      const { rows: verdict, node, reason } = proofOf({ ...graph, outputs: outputs ?? graph.outputs }, known)
      // What is wrong without any change says nothing of changes.
      return (verdict === 'independent' && differs) || !isKept(verdict, node, reason)
        ? []
        : [{ text, ...(outputs && { outputs }), known, verdict, differs }]
    } catch {
      return []
    }
  })
}

// Children judge some mutants each, as modules are never forgotten

if (process.send !== undefined && process.argv[2] === 'child') {
  const { expected, mutants } = JSON.parse(readFileSync(process.argv[3]!, 'utf8')) as {
    expected: Expected[]
    mutants: Mutant[]
  }
  const judge = new Judge(expected)
  for (const mutant of mutants) process.send({ mutant, verdict: await judgeMutant(judge, mutant) })
  process.disconnect()
} else {
  const { values } = parseArgs({
    options: {
      graphs: { type: 'string', default: '500' },
      only: { type: 'string' },
      every: { type: 'string', default: '1' },
      kind: { type: 'string' },
    },
  })
  const { rules } = await import('../../src/onnx/row-proof/prove-rows.ts')
  const expected = await expectedOf(Number(values.graphs))
  console.error(`${expected.length} graphs`)
  const mutants = [
    ...mutantsOf(values.only),
    ...(values.only === undefined
      ? passingRules(
          Object.keys(rules).filter(
            (operator) => rules[operator] !== rules['Relu'] && rules[operator] !== rules['IsNaN'],
          ),
        )
      : []),
  ]
    .filter(({ kind }) => values.kind === undefined || kind === values.kind)
    .filter((_, index) => index % Number(values.every) === 0)
  const folder = mkdtempSync(join(tmpdir(), 'broken-rules-'))
  const results: { mutant: Mutant; verdict: ReturnType<Judge['judge']> }[] = []
  for (let from = 0; from < mutants.length; from += perChild) {
    const task = join(folder, `${from}.json`)
    writeFileSync(task, JSON.stringify({ expected, mutants: mutants.slice(from, from + perChild) }))
    await new Promise<void>((resolve, reject) => {
      const child = fork(fileURLToPath(import.meta.url), ['child', task])
      child.on('message', (result) => results.push(result as (typeof results)[number]))
      child.on('exit', (code) =>
        code === 0 ? resolve() : reject(new Error(`a child ended with code ${code}`)),
      )
    })
    console.error(
      `${Math.min(from + perChild, mutants.length)} of ${mutants.length}, ${results.filter(({ verdict }) => verdict === null).length} not caught`,
    )
  }
  const isCaught = ({ verdict }: (typeof results)[number]) => verdict !== null
  const equivalent = results.filter((result) => !isCaught(result) && equivalenceOf(result.mutant) !== null)
  const survivors = results.filter((result) => !isCaught(result) && !equivalent.includes(result))
  for (const { mutant } of survivors)
    console.log(
      `${mutant.file}:${mutant.line} ${nameOf(mutant.kind, mutant.place)}\n  - ${mutant.before.trim()}\n  + ${mutant.after.trim()}`,
    )
  for (const { mutant, verdict } of results)
    if (verdict !== null && equivalenceOf(mutant) !== null)
      console.log(
        `listed as equivalent, but ${verdict.caught}: ${mutant.file}:${mutant.line} ${nameOf(mutant.kind, mutant.place)}, by ${verdict.by}`,
      )
  const summary = (of: typeof results) => {
    const count = (caught: Caught) => of.filter(({ verdict }) => verdict?.caught === caught).length
    const open = of.filter((result) => survivors.includes(result)).length
    const counted = of.length - of.filter((result) => equivalent.includes(result)).length
    return `${of.length}: ${count('refuted')} refuted, ${count('missed')} missed a proof, ${count('threw')} threw, ${of.length - counted} equivalent, ${open} not noticed; caught ${((100 * (counted - open)) / (counted || 1)).toFixed(1)} %`
  }
  console.log(`broken rules ${summary(results)}`)
  for (const kind of new Set(results.map(({ mutant }) => mutant.kind)))
    console.log(`  ${kind} ${summary(results.filter(({ mutant }) => mutant.kind === kind))}`)
}
