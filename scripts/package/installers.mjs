// Who installs packages: where each comes from, and how it is told to add some to a project. All but one are programs of Node's.
import { join } from 'node:path'
import { fromNpm } from '../nodes.mjs'

const npm = (version, oldestNode) => ({
  name: `npm ${version}`,
  oldestNode,
  program: () => programOf('npm', version, 'bin/npm-cli.js'),
  add: (packages, scripts) => [
    'install',
    ...(scripts ? [] : ['--ignore-scripts']),
    '--no-audit',
    '--no-fund',
    ...packages,
  ],
})

const pnpm = (version) => ({
  name: `pnpm ${version}`,
  oldestNode: 20,
  program: () => programOf('pnpm', version, version < 11 ? 'bin/pnpm.cjs' : 'bin/pnpm.mjs'),
  // It fails over a script that nobody has decided on.
  add: (packages, scripts) => [
    'add',
    scripts ? '--allow-build=onnxruntime-node' : '--ignore-scripts',
    ...packages,
  ],
})

const yarnClassic = {
  name: 'yarn 1',
  oldestNode: 20,
  program: () => programOf('yarn', 1, 'bin/yarn.js'),
  add: (packages, scripts) => [
    'add',
    '--no-progress',
    ...(scripts ? [] : ['--ignore-scripts']),
    ...packages.map((name) => (isFile(name) ? `file:${name}` : name)),
  ],
}

/** A file of its own says how packages are laid out, and an empty lockfile that the folder is a project by itself. */
const yarn = (linker) => ({
  name: `yarn 4 ${linker}`,
  oldestNode: 20,
  program: () => programOf('@yarnpkg/cli-dist', 4, 'bin/yarn.js'),
  files: (scripts) => ({
    'yarn.lock': '',
    '.yarnrc.yml': `nodeLinker: ${linker}\nenableScripts: ${scripts}\nenableTelemetry: false\nenableImmutableInstalls: false\n`,
  }),
  add: (packages) => ['add', ...packages.map((name) => (isFile(name) ? `zerohop@file:${name}` : name))],
  // Under PnP there are no folders for Node to look in: yarn has to start it.
  runsNode: linker === 'pnp',
})

/** The installer alone: what it has installed runs in Node. */
const bun = {
  name: 'bun',
  oldestNode: 20,
  isNode: false,
  program: () =>
    join(
      fromNpm(
        'installers/bun-1',
        `@oven/bun-${process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`,
        1,
      ),
      'bin/bun',
    ),
  add: (packages, scripts) => ['add', scripts ? '--trust' : '--ignore-scripts', ...packages],
}

export const installers = [
  npm(11, 20),
  npm(12, 22),
  pnpm(10),
  pnpm(12),
  yarnClassic,
  yarn('node-modules'),
  yarn('pnp'),
  bun,
]

const isFile = (name) => name.endsWith('.tgz')

function programOf(name, version, file) {
  return join(fromNpm(`installers/${name.replace('/', '-')}-${version}`, name, version), file)
}
