import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import type { CompileReport } from '../../src/cli/compile.ts'
import { InferenceEngine } from '../../src/index.ts'
import { readSealed, writeSealed } from '../../src/models/compiled-models/cache-folder.ts'
import type { Manifest } from '../../src/models/compiled-models/entry.ts'
import { ownIdentity, startOfSystem } from '../../src/models/compiled-models/entry-lock.ts'
import { entriesIn, ownFolder } from '../compiled-models/cached.ts'
import { loadElsewhere } from '../compiled-models/in-processes.ts'
import { perceptron } from '../compiled-models/models.ts'
import { full } from '../support/full.ts'
import { type Files, temporaryFolder, writeFiles } from '../triton-repository/temporary.ts'
import { root, runScript, zerohop } from './run.ts'

/** A repository of two models, one with options of its own, and an ensemble of one of them. */
const repository = (): Files => ({
  'plain/1/model.onnx': readFileSync(perceptron(1)),
  'basic/3/model.onnx': readFileSync(perceptron(1)),
  'basic/config.pbtxt': 'optimization { graph { level: -1 } }',
  'both/1/.keep': '',
  'both/config.pbtxt': `platform: "ensemble"
    input [{ name: "x", data_type: TYPE_FP32, dims: [-1, 64] }]
    output [{ name: "y", data_type: TYPE_FP32, dims: [-1, 8] }]
    ensemble_scheduling { step [{ model_name: "plain", model_version: -1, input_map { key: "x", value: "x" }, output_map { key: "y", value: "y" } }] }`,
})

// Written before the first test: a model is compiled no sooner than two seconds after its file was written.
const made = mkdtempSync(join(tmpdir(), 'zerohop-compile-'))
afterAll(() => rmSync(made, { recursive: true, force: true }))
const [good, partlyBad] = [join(made, 'good'), join(made, 'partly-bad')]
writeFiles(good, repository())
writeFiles(partlyBad, {
  'plain/1/model.onnx': readFileSync(perceptron(1)),
  'broken/1/model.onnx': 'no model',
  'python/1/model.py': '',
})

const reportIn = (stdout: string) => JSON.parse(stdout) as CompileReport

describe('zerohop compile', () => {
  it('compiles all models of a repository as it configures them, and says how it goes', async () => {
    const [folder, dir] = [good, ownFolder()]
    const { code, stdout, stderr } = await zerohop('compile', folder, '--cache', dir, '--json')
    expect({ code, lines: stderr.split('\n') }).toEqual({
      code: 0,
      lines: [
        'basic, version 3: loading and compiling (1 of 2)',
        'plain, version 1: loading and compiling (2 of 2)',
        '',
      ],
    })
    const compiled = { state: 'compiled', wasThere: false, rows: { rows: 'independent', how: 'proved' } }
    const { models, complete } = reportIn(stdout)
    expect(complete).toBe(true)
    expect(models).toMatchObject([
      { model: 'basic', version: 3, ...compiled },
      { model: 'plain', version: 1, ...compiled },
    ])
    for (const { byteLength, loadMs } of models) expect(Math.min(byteLength, loadMs!)).toBeGreaterThan(0)
    const engine = new InferenceEngine({ cache: { dir }, verify: 'none' })
    onTestFinished(() => engine.close())
    await engine.loadRepository(folder)
    expect(engine.capabilities().cache.models).toMatchObject({
      basic: { compiled: true },
      plain: { compiled: true },
    })
    expect(await zerohop('compile', folder, '--cache', dir, '--check')).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(
        /^model .*\nbasic .* yes\nplain .* yes\n.* is complete for this processor\n$/,
      ) as string,
    })
  })

  it('compiles one model, and what is there is not compiled again', async () => {
    const dir = ownFolder()
    const run = () => zerohop('compile', perceptron(), '-c', dir)
    const [first, second] = [await run(), await run()]
    expect(first.stdout).toMatch(/\ncached-perceptron-1 +1 +[\d.]+ s +[\d,]+ +independent, proved +yes\n/)
    expect(second.stdout).toMatch(/\ncached-perceptron-1 .* was there\n/)
    expect([first.code, second.code]).toEqual([0, 0])
  })

  it('seals what another process has made and left when it was killed', async () => {
    const dir = ownFolder()
    const run = (...more: string[]) => zerohop('compile', perceptron(), '-c', dir, ...more)
    await run()
    const [entry] = entriesIn(dir)
    const path = join(entry!, 'manifest.json')
    const manifest = readSealed<Manifest>(path)!
    const files = manifest.files!.map((file) => ({ ...file, hash: null }))
    await writeSealed(path, { ...manifest, files, unsealedIn: startOfSystem() }, 0o400)
    const [place] = ownIdentity().split('.')
    writeFileSync(join(dir, 'compiled-models-v1', 'locks', manifest.key), `${place}.${2 ** 22 + 1}.1 killed`)
    expect(await run('--check')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('it is not sealed') as string,
    })
    expect((await run()).code).toBe(0)
    expect(readSealed<Manifest>(path)).toMatchObject({ unsealedIn: null, files: manifest.files })
    expect((await run('--check')).code).toBe(0)
  })

  it('skips models for other backends, goes on after one that cannot be loaded, and exits with 1', async () => {
    const { code, stdout, stderr } = await zerohop('compile', partlyBad, '-c', ownFolder(), '-j')
    const { models, skipped, complete } = reportIn(stdout)
    expect({ code, complete }).toEqual({ code: 1, complete: false })
    expect(models).toMatchObject([
      { model: 'broken', state: 'missing', error: { code: 'ERR_MODEL_LOAD' } },
      { model: 'plain', state: 'compiled' },
    ])
    expect(skipped.map(({ model }) => model)).toEqual(['python'])
    expect(stderr).toContain("ERR_MODEL_LOAD: Model 'broken' cannot be loaded")
  })

  it('says with --check what is missing and why, and exits with 1', async () => {
    const [folder, dir] = [good, ownFolder()]
    const empty = await zerohop('compile', folder, '-c', dir, '--check')
    expect(empty).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/plain .* no: it is not in the cache\n/) as string,
    })
    await zerohop('compile', join(folder, 'plain/1/model.onnx'), '-c', dir)
    const { code, stdout } = await zerohop('compile', folder, '-c', dir, '--check')
    expect(code).toBe(1)
    expect(stdout).toMatch(
      /\nbasic .* no: the cache has it only for other options \(graphOptimizationLevel\)\n/,
    )
    expect(stdout).toMatch(/\nplain .* yes\n.* is not complete\n$/)
  })

  it('wants a folder where the environment turns the cache off', async () => {
    const env = { ...process.env, ZEROHOP_CACHE: 'off' }
    expect(await runScript(`${root}dist/cli/main.js`, ['compile', perceptron()], env)).toMatchObject({
      code: 2,
      stderr: 'error: the cache is turned off by ZEROHOP_CACHE: name its folder with --cache <dir>\n',
    })
  })
})

describe.runIf(full && process.platform === 'linux' && process.getuid?.() === 0)(
  'the Dockerfile of docs/guide/containers.md',
  () => {
    const text = readFileSync(join(root, 'docs/guide/containers.md'), 'utf8')
    const [build, image] = /```text\n([\s\S]*?)```/
      .exec(text)![1]!
      .split(/^FROM .*\n/m)
      .slice(1)
    const commands = (stage: string) => [...stage.matchAll(/^RUN (.*)$/gm)].map(([, command]) => command!)
    const otherUser = 12_345

    /** Runs the commands of a stage with `zerohop`, in a folder, as a user. */
    function run(command: string, cwd: string, cache: string, user: number): string {
      const line = command
        .replaceAll('npx zerohop', `'${process.execPath}' '${root}dist/cli/main.js'`)
        .replaceAll('/cache', cache)
      const env = { PATH: process.env['PATH'], ZEROHOP_CACHE: cache }
      return execFileSync('/bin/sh', ['-c', line], {
        cwd,
        env,
        uid: user,
        gid: user,
        encoding: 'utf8',
        stdio: 'pipe',
      })
    }

    it('makes a folder that a fresh user finds complete at another path, and loads from at once', async () => {
      const [app, building, final] = [temporaryFolder(repository()), ownFolder(), ownFolder()]
      for (const folder of [app, building, final]) chmodSync(folder, 0o755)
      const models = join(app, 'models')
      mkdirSync(models)
      for (const name of ['plain', 'basic', 'both'])
        cpSync(join(app, name), join(models, name), { recursive: true })
      const file = join(models, 'plain/1/model.onnx')
      const cache = join(building, 'cache')
      const [install, ...compiling] = commands(build!)
      expect(install).toContain('npm ci')
      for (const command of compiling) run(command, app, cache, 0)
      // Layers of images keep owners, modes, and whole seconds of times.
      execFileSync('cp', ['-a', cache, join(final, 'other')])
      const files = execFileSync('find', [final, models, '-type', 'f'], { encoding: 'utf8' })
        .trim()
        .split('\n')
      const original = (path: string) =>
        Math.floor(Number(execFileSync('stat', ['-c', '%Y', path], { encoding: 'utf8' })))
      for (const path of files) utimesSync(path, original(path), original(path))
      const outputs = commands(image!).map((command) => run(command, app, join(final, 'other'), otherUser))
      expect(outputs).toEqual([expect.stringContaining('is complete for this processor')])
      expect(await loadElsewhere(join(final, 'other'), file, {}, { user: otherUser }).loaded).toMatchObject({
        compiled: true,
        children: 0,
        warnings: [],
      })
    })
  },
)
