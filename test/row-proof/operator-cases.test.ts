import { describe, expect, it } from 'vitest'
import { type RowProof, rules } from '../../src/onnx/row-proof/prove-rows.ts'
import { parseGraph } from './graph-text.ts'
import { allCases, operatorCases } from './operator-cases.ts'
import { type KnownDims, proofOf } from './proof.ts'
import { truthOf } from './truth.ts'
import { full } from '../support/full.ts'

/** What gives no tensor that onnxruntime-node can read, or has no kernel in what it brings along. */
const withoutCase = new Set(['ai.onnx.ml:ZipMap', 'com.microsoft:Tokenizer', 'com.microsoft:IsAllFinite'])

/** What is said may become more: of the others, some nodes are not followed. */
const leastSaid = 839
const leastWithoutDims = 751

/** A graph for its text, and what it says of its rows, once for all tests. */
const graphs = new Map(allCases.map(({ text }) => [text, parseGraph(text)]))
const proofs = new Map<string, RowProof>()

function proofFor(text: string, known: KnownDims = 'all'): RowProof {
  const proof = proofs.get(`${known} ${text}`) ?? proofOf(graphs.get(text)!, known)
  proofs.set(`${known} ${text}`, proof)
  return proof
}

describe('operator cases', () => {
  it.runIf(full)('are what ONNX Runtime makes of them', async () => {
    const wrong: string[] = []
    for (const { text, expected } of allCases) {
      const { answer, where } = await truthOf(graphs.get(text)!)
      if (answer !== (expected === 'dependent' ? 'differs' : 'same'))
        wrong.push(`${text}: ${answer}, ${where}`)
    }
    expect(wrong).toEqual([])
  })

  it.each(['all', 'none'] as const)('whose rows meet are never proved (dims known: %s)', (known) => {
    const meeting = allCases.filter(({ expected }) => expected === 'dependent')
    expect(meeting.length).toBeGreaterThan(400)
    expect(
      meeting.filter(({ text }) => proofFor(text, known).rows === 'independent').map(({ text }) => text),
    ).toEqual([])
  })

  it('whose rows meet are said to, with the node where they do', () => {
    const said = allCases.filter(({ text, expected }) => {
      const { rows, node } = proofFor(text)
      return expected === 'dependent' && rows === 'dependent' && node !== null
    })
    expect(said.length).toBeGreaterThanOrEqual(leastSaid)
  })

  it('whose rows stay apart are mostly proved without any dimension', () => {
    const proved = allCases.filter(
      ({ text, expected }) => expected === 'independent' && proofFor(text, 'none').rows === 'independent',
    )
    expect(proved.length).toBeGreaterThanOrEqual(leastWithoutDims)
  })

  it('whose rows stay apart are proved', () => {
    const apart = allCases.filter(({ expected }) => expected === 'independent')
    expect(apart.length).toBeGreaterThan(600)
    const missed = apart.flatMap(({ text }) => {
      const { rows, reason } = proofFor(text)
      return rows === 'independent' ? [] : [`${text}: ${rows}, ${reason}`]
    })
    expect(missed).toEqual([])
  })

  it('are there for every rule', () => {
    const tried = new Set(operatorCases.flatMap(({ text }) => graphs.get(text)!.operators))
    expect(
      Object.keys(rules).filter((operator) => !tried.has(operator) && !withoutCase.has(operator)),
    ).toEqual([])
  })
})
