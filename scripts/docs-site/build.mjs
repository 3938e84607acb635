// npm run docs: writes docs/api, a page for each entry point of the package, from the declarations in dist/, and builds the
// docs site from docs/ into build/docs-site. It fails if a public name has no doc comment, or if a link leads nowhere.
// npm run docs:dev serves the site instead, and shows each change of a document at once.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('../..', import.meta.url))

if (!existsSync(`${here}node_modules/typedoc`)) {
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: here,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  if (status !== 0) process.exit(1)
}
const { Application, TSConfigReader } = await import('typedoc')
const { build, createServer } = await import('vitepress')

const { name, exports } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))
const entries = Object.entries(exports).flatMap(([entry, conditions]) =>
  entry === './internals' || conditions.default?.types === undefined
    ? []
    : [[entry, conditions.default.types]],
)
/** Names of import, by those that TypeDoc makes of paths. */
const names = new Map(
  entries.map(([entry, types]) => [types.replace(/^\.\/dist\/(.*)\.d\.ts$/, '$1'), name + entry.slice(1)]),
)

const application = await Application.bootstrapWithPlugins(
  {
    tsconfig: `${here}tsconfig.json`,
    entryPoints: entries.map(([, types]) => root + types),
    basePath: `${root}dist`,
    plugin: ['typedoc-plugin-markdown'],
    router: 'module',
    out: `${root}docs/api`,
    name: `${name}: API reference`,
    sortEntryPoints: false,
    readme: 'none',
    disableSources: true,
    excludeInternal: true,
    excludeExternals: true,
    excludePrivate: true,
    useCodeBlocks: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    hidePageHeader: true,
    hideBreadcrumbs: true,
    // Properties of records may be told by their names and the record's own words.
    requiredToBeDocumented: [
      'Class',
      'Interface',
      'TypeAlias',
      'Enum',
      'EnumMember',
      'Function',
      'Variable',
      'Method',
      'Accessor',
    ],
    // Pages are apart, as entry points are: a link leads nowhere from one to the next.
    validation: { notExported: false, invalidLink: false, notDocumented: true },
    treatValidationWarningsAsErrors: true,
  },
  [new TSConfigReader()],
)

const project = await application.convert()
if (project === undefined) process.exit(1)
for (const module of project.children) module.name = names.get(module.name)
application.validate(project)
if (application.logger.hasErrors() || application.logger.hasWarnings()) process.exit(1)
await application.generateOutputs(project)

if (process.argv.includes('--dev')) {
  const server = await createServer(here)
  await server.listen()
  server.printUrls()
} else await build(here)
