// A machine without a compiler and without anything of ours: the path has Node and a shell, and what would build an addon is noticed.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { root } from '../native/toolchain.mjs'

const builders = [
  'cc',
  'c++',
  'gcc',
  'g++',
  'clang',
  'clang++',
  'make',
  'cmake',
  'ninja',
  'python',
  'python3',
  'node-gyp',
  'node-pre-gyp',
  'prebuild-install',
]

// With what installers keep: the next one finds what was downloaded before.
const home = join(root, '.cache/installers/home')
const registry = registrySettings()

/** In `folder`, with `node` on its path. */
export class StrangersMachine {
  #folder
  #node
  #started

  constructor(folder, node) {
    this.#folder = folder
    this.#node = node
    this.#started = join(folder, 'builders-started')
    const bin = join(folder, 'bin')
    mkdirSync(bin, { recursive: true })
    mkdirSync(home, { recursive: true })
    symlinkSync(node, join(bin, 'node'))
    symlinkSync('/bin/sh', join(bin, 'sh'))
    for (const builder of builders) {
      writeFileSync(join(bin, builder), `#!/bin/sh\necho ${builder} >> '${this.#started}'\nexit 1\n`)
      chmodSync(join(bin, builder), 0o755)
    }
  }

  /** The programs that would build an addon and were started, one a line; empty where none was. */
  get buildersStarted() {
    return existsSync(this.#started) ? readFileSync(this.#started, 'utf8') : ''
  }

  /** Runs a program in a project; returns what it printed, and throws that where it fails. */
  run(project, args, command = this.#node) {
    const { status, signal, stdout, stderr, error } = spawnSync(command, args, {
      cwd: project,
      encoding: 'utf8',
      env: this.#environment(),
      timeout: 600_000,
    })
    if (status === 0) return stdout
    throw new Error(
      `${basename(command)} ${args.join(' ')} ended with ${error?.message ?? signal ?? `exit code ${status}`}\n${stdout}${stderr}`,
    )
  }

  /** Nothing of this process's, which npm may have started with settings of its own, but where packages come from. */
  #environment() {
    return {
      PATH: join(this.#folder, 'bin'),
      HOME: home,
      ...registry,
      CI: '1',
      ONNXRUNTIME_NODE_INSTALL: 'skip',
      ZEROHOP_CACHE: join(this.#folder, 'compiled'),
    }
  }
}

/** What npm here knows of the registry, as each installer wants to be told. */
function registrySettings() {
  const setting = (name) =>
    execFileSync('npm', ['config', 'get', name], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  const address = setting('registry')
  const authorities = setting('cafile')
  const known = { npm_config_registry: address, YARN_NPM_REGISTRY_SERVER: address }
  if (!existsSync(authorities)) return known
  return {
    ...known,
    npm_config_cafile: authorities,
    YARN_HTTPS_CA_FILE_PATH: authorities,
    NODE_EXTRA_CA_CERTS: authorities,
  }
}
