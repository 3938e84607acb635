// Builds and runs the C++ tests: node scripts/native/test.mjs [--asan|--tsan]
// They need cmake, a C++ compiler and GoogleTest, but neither Node's headers nor a GPU.
import { fail, has, run } from './toolchain.mjs'

const configuration = process.argv.includes('--asan')
  ? 'Asan'
  : process.argv.includes('--tsan')
    ? 'Tsan'
    : 'Debug'
const directory = `build/native-test/${configuration}`
// The leak check falls over thread-local memory of libraries that are opened late, as the stand-ins are, where this guesses its place.
process.env.ASAN_OPTIONS ??= 'intercept_tls_get_addr=0'
const generator = has('ninja') ? ['-G', 'Ninja'] : []

try {
  const definitions = ['-DZEROHOP_TESTS=ON', `-DCMAKE_BUILD_TYPE=${configuration}`]
  run('cmake', ['-S', 'native', '-B', directory, ...generator, ...definitions])
  run('cmake', ['--build', directory, '--config', configuration, '--parallel', '2'])
  run('ctest', ['--test-dir', directory, '-C', configuration, '--output-on-failure'])
} catch (error) {
  fail(error)
}
