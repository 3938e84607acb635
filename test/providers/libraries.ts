import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const cache = fileURLToPath(new URL('../../.cache/', import.meta.url))

/** Compiles C into a library of its own; `null` where there is no compiler for it. */
export function compile(source: string, definitions: readonly string[] = []): string | null {
  if (process.platform !== 'linux') return null
  const hash = createHash('sha256').update(source).update(definitions.join()).digest('hex').slice(0, 16)
  const path = join(cache, 'plugins', `${hash}.so`)
  if (existsSync(path)) return path
  mkdirSync(join(cache, 'plugins'), { recursive: true })
  const unfinished = `${path}.${process.pid}.tmp`
  const args = ['-shared', '-fPIC', '-x', 'c', '-o', unfinished, ...definitions, '-', '-ldl']
  if (spawnSync('cc', args, { input: source, stdio: ['pipe', 'ignore', 'inherit'] }).status !== 0) return null
  renameSync(unfinished, path)
  return path
}

/** A library that does this as it is loaded; `null` without a C compiler. */
export function libraryThat(does: string): string | null {
  return compile(
    `#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void load(void) { ${does} }\n`,
  )
}

/** The Python of the environment in which OpenVINO is installed. */
export const openVinoPython = join(cache, 'providers/openvino/bin/python')

interface OpenVino {
  readonly library: string | null
  /** For the names of tests that skip. */
  readonly missing: string
}

/** OpenVINO's plugin, as `scripts/providers/install-openvino.mjs` installs it; on other processors than Intel's through one that lets it run there. */
export function openVinoPlugin(): OpenVino {
  const installed = installedOpenVino()
  if (installed === null)
    return {
      library: null,
      missing: ' (skipped: OpenVINO is not installed; node scripts/providers/install-openvino.mjs does that)',
    }
  if (/intel/i.test(cpus()[0]?.model ?? '')) return { library: installed, missing: '' }
  const source = readFileSync(new URL('./any-vendor-plugin.c', import.meta.url), 'utf8')
  const library = compile(source, [`-DPLUGIN_PATH="${installed}"`])
  return {
    library,
    missing:
      library === null
        ? ' (skipped: OpenVINO offers itself on Intel processors only, and there is no C compiler)'
        : '',
  }
}

function installedOpenVino(): string | null {
  const lib = join(cache, 'providers/openvino/lib')
  if (!existsSync(lib)) return null
  const paths = readdirSync(lib).map((version) =>
    join(lib, version, 'site-packages/onnxruntime_ep_openvino/libonnxruntime_providers_openvino_plugin.so'),
  )
  return paths.find((path) => existsSync(path)) ?? null
}
