// A folder for node-gyp's --nodedir, so that it downloads no headers.
import { copyFileSync, existsSync, mkdirSync, readdirSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { packageFile, root } from './toolchain.mjs'

// The little of Node's own common.gypi that an addon of plain Node-API needs.
const commonGypi = `{
  'target_defaults': {
    'default_configuration': 'Release',
    'cflags': ['-fPIC', '-pthread'],
    'configurations': {
      'Release': { 'cflags': ['-O3'], 'defines': ['NDEBUG'] },
      'Debug': { 'cflags': ['-g', '-O0'], 'defines': ['DEBUG'] },
    },
    'conditions': [
      ['OS=="mac"', {
        'defines': ['_DARWIN_USE_64_BIT_INODE=1'],
        'xcode_settings': { 'OTHER_LDFLAGS': ['-undefined', 'dynamic_lookup'], 'MACOSX_DEPLOYMENT_TARGET': '11.0' },
      }],
    ],
  },
}
`

/**
 * The prefix of the running Node where its headers are installed beside it; else a folder made of node-api-headers.
 * Undefined on Windows, which also needs the node.lib that only node-gyp's own download has.
 */
export function nodeDirectory() {
  if (process.platform === 'win32') return undefined
  const prefix = dirname(dirname(realpathSync(process.execPath)))
  return existsSync(join(prefix, 'include/node/common.gypi')) ? prefix : minimalDirectory()
}

function minimalDirectory() {
  const directory = join(root, 'build', 'node-headers')
  const include = join(directory, 'include', 'node')
  const headers = packageFile('node-api-headers', 'include')
  mkdirSync(include, { recursive: true })
  for (const file of readdirSync(headers)) copyFileSync(join(headers, file), join(include, file))
  writeFileSync(join(include, 'common.gypi'), commonGypi)
  writeFileSync(join(include, 'config.gypi'), "{ 'target_defaults': {}, 'variables': {} }\n")
  return directory
}
