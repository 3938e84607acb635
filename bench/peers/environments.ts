import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isEnded } from './ending.ts'
import { cacheFolder, source } from './folders.ts'
import { PeerMissing, type Versions } from './peer.ts'

/** How long a step of a set-up may take: the largest downloads some hundreds of megabytes. */
const limitSeconds = 900

/** Debian's own where it is, as PyTriton's stubs are made for that; else whichever is first. */
const systemPython = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3'

/** A virtual environment of its own for a peer, with what its `requirements.txt` pins. */
export async function pythonEnvironment(peer: string, systemSitePackages = false): Promise<string> {
  const requirements = source(`${peer}/requirements.txt`)
  const folder = cacheFolder(peer)
  const python = join(folder, 'venv/bin/python')
  await once(folder, readFileSync(requirements, 'utf8'), async () => {
    rmSync(join(folder, 'venv'), { recursive: true, force: true })
    await step(systemPython, [
      '-m',
      'venv',
      ...(systemSitePackages ? ['--system-site-packages'] : []),
      join(folder, 'venv'),
    ])
    await step(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', requirements])
  })
  return python
}

/** Packages of npm in a folder of their own, without their scripts, as the peer's `package.json` and lock pin them. */
export async function npmEnvironment(peer: string): Promise<string> {
  const folder = cacheFolder(peer)
  const pinned = ['package.json', 'package-lock.json']
  await once(
    folder,
    pinned.map((name) => readFileSync(source(`${peer}/${name}`), 'utf8')).join(''),
    async () => {
      for (const name of pinned) copyFileSync(source(`${peer}/${name}`), join(folder, name))
      await step('npm', ['ci', '--silent', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', folder])
    },
  )
  return folder
}

/** Versions of installed packages, by the names that their requirements have. */
export function pinnedVersions(peer: string, packages: readonly string[]): Versions {
  const lines = readFileSync(source(`${peer}/requirements.txt`), 'utf8').split('\n')
  return Object.fromEntries(
    packages.map((name) => [
      name,
      lines.find((line) => line.startsWith(`${name}==`))!.slice(name.length + 2),
    ]),
  )
}

/** Sets something up in a folder unless that was done before from the same pins. */
export async function once(folder: string, pins: string, setUp: () => Promise<void>): Promise<void> {
  const ready = join(folder, 'ready')
  const hash = createHash('sha256').update(pins).digest('hex')
  if (existsSync(ready) && readFileSync(ready, 'utf8') === hash) return
  rmSync(ready, { force: true })
  await setUp()
  writeFileSync(ready, hash)
}

/** Runs a command of a set-up. @throws PeerMissing with the last that it said. */
export function step(
  file: string,
  args: readonly string[],
  cwd?: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: limitSeconds * 1000,
      killSignal: 'SIGKILL',
      signal: isEnded,
    })
    let [said, output] = ['', '']
    child.stdout.on('data', (text: Buffer) => (output += text.toString()))
    child.stderr.on('data', (text: Buffer) => (said = (said + text.toString()).slice(-2000)))
    child.on('error', (error) => reject(new PeerMissing(`${file} could not be started: ${error.message}`)))
    child.on('close', (code, signal) => {
      if (code === 0) resolve(output.trim())
      else
        reject(
          new PeerMissing(
            `\`${[file, ...args].join(' ')}\` ${signal === null ? `ended with code ${code}` : `was ended after ${limitSeconds} s`}: ${reasonIn(said || output)}`,
          ),
        )
    })
  })
}

/** The line that names an error, or the last. */
function reasonIn(said: string): string {
  const lines = said.trim().split('\n')
  return lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1)!
}
