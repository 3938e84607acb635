import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { limitMs } from './child.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** A folder in which this package is installed, with all that is installed here but onnxruntime-node. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-alone-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, 'zerohop'), { recursive: true })
  for (const name of ['dist', 'package.json', 'build'])
    symlinkSync(join(root, name), join(modules, 'zerohop', name))
  for (const name of readdirSync(join(root, 'node_modules')))
    if (!['onnxruntime-node', 'zerohop', '.bin'].includes(name))
      symlinkSync(join(root, 'node_modules', name), join(modules, name))
  return folder
}

it(
  'without onnxruntime-node a load says what to install, and nothing is said of a fallback that there is not',
  { timeout: limitMs },
  async () => {
    const folder = project()
    const main = `import { InferenceEngine } from 'zerohop'
const engine = new InferenceEngine()
await engine.load('digits', { path: process.argv[2] }).catch(({ code, message }) => console.log(code, message))
await engine.close()
`
    writeFileSync(join(folder, 'main.mjs'), main)
    // Else what is linked to would find what lies beside it here.
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ['--preserve-symlinks', '--no-deprecation', 'main.mjs', join(root, 'examples/digits/model.onnx')],
      { cwd: folder },
    )
    expect(stdout).toMatch(
      /^ERR_NATIVE_LOAD onnxruntime-node cannot be loaded: .*Run `npm install onnxruntime-node`\.$/m,
    )
    expect(stderr).not.toContain('ZEROHOP_EXECUTOR_FALLBACK')
  },
)
