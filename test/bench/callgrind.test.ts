import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { instructionsOf, workerOf } from '../../bench/callgrind.ts'

const written = `# callgrind format
version: 1
positions: line
events: Ir

ob=(1) /usr/bin/node
fl=(1) ???
fn=(1) main
0 100
cob=(2) /project/zerohop.node
cfn=(2) submit
calls=3 0
0 5000
+1 7

ob=(2)
fn=(2)
0 40
cob=(3) /modules/libonnxruntime.so.1
cfn=(3) Run
calls=1 0
* 4000

ob=(3)
fn=(3)
-4 4000

ob=(4) ???
fn=(4) 0x00007f0000000000
* 13
`

it('what a thread spent is summed up by where its functions are, each function for itself', () => {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  try {
    writeFileSync(join(folder, 'out-01'), written)
    expect(instructionsOf(join(folder, 'out-01'))).toEqual({
      'Node and V8': 107,
      addon: 40,
      'ONNX Runtime': 4000,
      'compiled JavaScript': 13,
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

it('the worker is the thread that runs the model for longer when there are more requests, wherever it is numbered', () => {
  const [application, opener] = [{ 'Node and V8': 9e9 }, { 'ONNX Runtime': 96_000_000 }]
  const [few, many] = [{ 'ONNX Runtime': 50_000_000 }, { 'ONNX Runtime': 150_000_000 }]
  const fewer = [application, opener, {}, few]
  const more = [application, {}, many, { 'ONNX Runtime': 96_000_400 }]
  expect([workerOf(fewer, more), workerOf(more, fewer)]).toEqual([few, many])
  expect(workerOf([application, opener], [application, {}, opener])).toBeUndefined()
})
