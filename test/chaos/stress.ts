// The chaos test's program with the native executor, 4 workers and 8 models, and the addon built with the address sanitizer:
// tsx test/chaos/stress.ts [--seconds 60] [--seed 1]. `--plain` takes the release build.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chaosModels } from './chaos-models.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Math.floor(Date.now() / 86_400_000)) },
    plain: { type: 'boolean', default: false },
  },
})
const addon = fileURLToPath(
  new URL(`../../build/cmake/${values.plain ? 'Release' : 'Asan'}/zerohop.node`, import.meta.url),
)
if (!existsSync(addon))
  throw new Error(`there is no ${addon}: build it by npm run build:native${values.plain ? '' : ':asan'}`)

const library = (name: string) =>
  spawnSync('g++', [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout.trim()

const sanitizer = {
  // Node does not have them; the C++ library goes first, too, or exceptions are not seen.
  LD_PRELOAD: ['libasan.so', 'libstdc++.so.6'].map(library).join(' '),
  // Node leaves a lot to the end of the process; leaks of the addon are looked for by its own tests.
  ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
  UBSAN_OPTIONS: 'print_stacktrace=1',
}
const program = fileURLToPath(new URL('fixtures/chaos.mjs', import.meta.url))
const { status, signal, stdout } = spawnSync(process.execPath, [program], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
  env: {
    ...process.env,
    ...(values.plain ? {} : sanitizer),
    NODE_NO_WARNINGS: '1', // options that do not count are among what is tried
    ZEROHOP_NATIVE: addon,
    ZEROHOP_EXECUTOR: 'native',
    ZEROHOP_CACHE: 'off',
    ZEROHOP_VERIFY: 'none',
    CHAOS_SEED: values.seed,
    CHAOS_SECONDS: values.seconds,
    CHAOS_MODELS: JSON.stringify(chaosModels()),
    CHAOS_WORKERS: '4',
    CHAOS_LEAST_MODELS: '8',
  },
})
console.log(stdout.trimEnd())
const { faults = ['no report'] } = JSON.parse(stdout.trimEnd().split('\n').at(-1) || '{}') as {
  faults?: string[]
}
if (status !== 0 || faults.length > 0) {
  console.error(`stress with --seed ${values.seed}: ${signal ?? `code ${status}`}, ${faults.length} faults`)
  process.exitCode = 1
}
