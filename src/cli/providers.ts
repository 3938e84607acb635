import { resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { openNativeOrt, type NativeOrt } from '../run/executors/native/native-ort.ts'
import { openPlugin } from '../run/provider-plugins.ts'
import { InferenceError, type ProviderCapability } from '../index.ts'
import { BuiltInProviders } from '../run/built-in-providers.ts'
import { builtInCapability, describeDevice } from '../run/engine-providers.ts'
import { switchOffTelemetry } from '../run/telemetry.ts'
import { findPlugins, type FoundPlugin } from './find-plugins.ts'

/** `zerohop providers`: what models can run on here. */
export const providers = new Command('providers')
  .description('try the execution providers built into ONNX Runtime, and plugins, and list their devices')
  .addOption(
    new Option('-p, --plugin <name=library>', 'plugin to try; repeatable')
      .argParser(addPlugin)
      .default([], 'none'),
  )
  .option(
    '-f, --find',
    'find installed plugins, in node_modules and Python environments, and try them',
    false,
  )
  .option('-j, --json', 'print JSON', false)
  .action(async ({ plugin: given, find, json }: { plugin: FoundPlugin[]; find: boolean; json: boolean }) => {
    switchOffTelemetry(undefined)
    const ort = openNativeOrt()
    if (ort.binding === null)
      throw new InferenceError(
        'ERR_NATIVE_LOAD',
        `plugins need the native executor, which is not available: ${ort.reason}`,
      )
    const found = find ? await findPlugins() : []
    const builtIn = new BuiltInProviders()
    builtIn.readNames(ort)
    await builtIn.tryAll()
    const plugins: ProviderCapability[] = []
    // One after the other, as each trial uses the cores.
    for (const plugin of [...given, ...found]) plugins.push(await tryPlugin(ort, plugin))
    const all = [...builtIn.all.map(builtInCapability), ...plugins]
    process.stdout.write(
      json
        ? `${JSON.stringify(all, null, 2)}\n`
        : `ONNX Runtime ${ort.version}\n\n${all.map(shown).join('\n')}`,
    )
    if (find && !json) process.stdout.write(found.length === 0 ? installation : usage(plugins))
  })

const installation = `
No plugin is installed where zerohop looks: node_modules, $VIRTUAL_ENV, .venv, and the packages of python3. To install one:

  python3 -m venv .venv && .venv/bin/pip install onnxruntime-ep-openvino
`

async function tryPlugin(ort: NativeOrt, { name, library }: FoundPlugin): Promise<ProviderCapability> {
  const { devices, reason } = await openPlugin(ort, name, library)
  const found = {
    available: reason === null,
    reason: reason ?? 'it ran a model in its own process',
    devices: devices.map(describeDevice),
  }
  return { name, source: 'plugin', library, ...found }
}

function shown({ name, source, available, reason, library, devices }: ProviderCapability): string {
  const word = available === null ? 'perhaps' : available ? 'yes' : 'no'
  const lines = devices.map(({ device, name: itsName }) => `    ${device}: ${itsName}\n`)
  return `${name} (${source}): ${word}, ${reason}\n${library === undefined ? '' : `    ${library}\n`}${lines.join('')}`
}

function usage(plugins: readonly ProviderCapability[]): string {
  const usable = plugins.filter(({ available }) => available)
  if (usable.length === 0) return '\nNone of the installed plugins can be used here.\n'
  const entries = usable.map(({ name, library }) => `${name}: { library: ${JSON.stringify(library)} }`)
  return `\nTo use them: new InferenceEngine({ providers: { ${entries.join(', ')} } })\n`
}

/** Parses `name=library`, and adds it to the earlier ones. */
function addPlugin(value: string, before: readonly FoundPlugin[]): FoundPlugin[] {
  const [, name, library] = /^([a-z][a-z0-9_-]*)=(.+)$/.exec(value) ?? []
  if (name === undefined || library === undefined)
    throw new InvalidArgumentError('Expected a name and a path, such as openvino=plugins/openvino.so.')
  return [...before, { name, library: resolve(library) }]
}
