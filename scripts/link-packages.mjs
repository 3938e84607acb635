// Links the packages of this checkout to each other, a step of `npm run build:ts`: packages/perf finds `zerohop` here, and
// `zerohop` finds `@zerohop/perf`. npm makes the second link itself, and would run this package's `prepare` twice for the first.
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

link('packages/perf/node_modules/zerohop', '.')
link('node_modules/@zerohop/perf', 'packages/perf')

function link(place, target) {
  const path = join(root, place)
  if (existsSync(join(path, 'package.json'))) return
  mkdirSync(dirname(path), { recursive: true })
  rmSync(path, { force: true })
  if (process.platform === 'win32') symlinkSync(join(root, target), path, 'junction')
  else symlinkSync(relative(dirname(path), join(root, target)), path)
}
