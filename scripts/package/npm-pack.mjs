import { execFileSync } from 'node:child_process'

/** What `npm pack` reports of the package in a folder, packed or, with `--dry-run`, about to be. What is in dist/ is taken: building it is left to who calls. */
export function npmPack(folder, ...options) {
  const report = execFileSync('npm', ['pack', '--json', '--ignore-scripts', ...options], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return Object.values(JSON.parse(report))[0] // npm 12 has it by the package's name, older ones in a list
}
