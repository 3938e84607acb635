// A bundle that has left the package, with its binary and the thread that reads large graphs beside it, and what it was told to leave out.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const packages = '../node_modules'
const folder = mkdtempSync(join(tmpdir(), 'zerohop-bundle-'))
try {
  mkdirSync(join(folder, 'node_modules'))
  for (const name of ['onnxruntime-node', 'onnxruntime-common']) cpSync(join(packages, name), join(folder, 'node_modules', name), { recursive: true })
  for (const file of ['dist/run/prover-thread.cjs', 'prebuilds']) cpSync(join(packages, 'zerohop', file), join(folder, file.replace('dist/', '')), { recursive: true })
  for (const file of ['bundle.js', 'bundle.cjs']) {
    cpSync(join('out', file), join(folder, file))
    execFileSync(process.execPath, [join(folder, file)], { cwd: folder, stdio: 'inherit' })
  }
} finally {
  rmSync(folder, { recursive: true })
}
