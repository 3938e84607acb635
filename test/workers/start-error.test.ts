import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { InferenceError } from '../../src/errors.ts'
import { StartFailure, startError } from '../../src/run/thread-pool.ts'

const ort = '/app/node_modules/onnxruntime-node'
const linux = `${ort}/bin/napi-v6/linux/x64`

// As Node and the system's loaders have said it.
const messages: [cause: string, message: string, remedy: RegExp][] = [
  [
    'not installed',
    "Cannot find module 'onnxruntime-node'\nRequire stack:\n- /app/node_modules/zerohop/dist/worker-thread/onnxruntime.js",
    /npm install onnxruntime-node`\.$/,
  ],
  [
    'without the package it needs',
    `Cannot find module 'onnxruntime-common'\nRequire stack:\n- ${ort}/dist/index.js`,
    /npm install onnxruntime-node`\.$/,
  ],
  ['too old', 'its version 1.24.3 is older than 1.25', /npm install onnxruntime-node@1/],
  [
    'in a thread without addons',
    'Cannot load native addon because loading addons is disabled.',
    /without --no-addons; with --permission, add --allow-addons/,
  ],
  [
    'beside another version',
    `${linux}/libonnxruntime.so.1: version \`VERS_1.30.0' not found (required by /app/other/node_modules/onnxruntime-node/bin/napi-v6/linux/x64/onnxruntime_binding.node)`,
    /Another version of it is loaded in this process. See `npm ls onnxruntime-node`/,
  ],
  ['a second time', `Module did not self-register: '${linux}/onnxruntime_binding.node'.`, /Another version/],
  [
    'on an old system',
    `/lib/x86_64-linux-gnu/libm.so.6: version \`GLIBC_2.27' not found (required by ${linux}/libonnxruntime.so.1)`,
    /needs glibc 2\.28/,
  ],
  [
    'on musl',
    `Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by ${linux}/libonnxruntime.so.1)`,
    /not for musl \(Alpine\): use an image such as node:22-slim/,
  ],
  [
    'on musl with gcompat',
    `Error relocating ${linux}/libonnxruntime.so.1: __vsnprintf_chk: symbol not found`,
    /not for musl/,
  ],
  [
    'on a platform without a binary',
    `Cannot find module '../bin/napi-v6/darwin/x64/onnxruntime_binding.node'\nRequire stack:\n- ${ort}/dist/binding.js`,
    /It has no binary for \w+-\w+/,
  ],
  [
    'without its library',
    'libonnxruntime.so.1: cannot open shared object file: No such file or directory',
    /Remove node_modules\/onnxruntime-node/,
  ],
  [
    'on Windows without the C++ runtime',
    'The specified module could not be found.\n\\\\?\\C:\\app\\onnxruntime_binding.node',
    /Visual C\+\+ Redistributable/,
  ],
  ['for reasons nobody has thought of', 'the moon is full', /Remove node_modules\/onnxruntime-node/],
]

describe('onnxruntime-node that cannot be loaded', () => {
  it.each(messages)('is an ERR_NATIVE_LOAD that says what to do: %s', (_, message, remedy) => {
    const cause = new StartFailure({ message, code: 'ERR_DLOPEN_FAILED', onnxruntime: true })
    const error = startError(cause) as InferenceError
    expect(error).toBeInstanceOf(InferenceError)
    expect(error).toMatchObject({ code: 'ERR_NATIVE_LOAD', expected: expect.any(String), cause })
    expect(error.message).toMatch(remedy)
    expect(error.message).toContain(`received '${message.split('\nRequire stack')[0]}'`)
    expect(error.message).not.toContain('Require stack')
  })
})

describe('the package', () => {
  it('asks for the versions of onnxruntime-node that its errors ask for', () => {
    const { peerDependencies, dependencies } = JSON.parse(
      readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
    )
    expect(peerDependencies['onnxruntime-node']).toBe('>=1.25 <2')
    expect(dependencies['onnxruntime-common']).toBe(peerDependencies['onnxruntime-node'])
  })
})

describe('another failure of a thread to start', () => {
  it('stays what it is: the load says that of its model', () => {
    const ended = new Error('the worker thread ended with exit code 3')
    const refused = new StartFailure({ message: 'out of ports', code: undefined, onnxruntime: false })
    expect(startError(ended)).toBe(ended)
    expect(startError(refused)).toBe(refused)
  })
})
