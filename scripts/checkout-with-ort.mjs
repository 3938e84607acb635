// A copy of this checkout in which onnxruntime-node has another version: the package has no say in which one Node
// resolves, so the files have to lie where another one is found first.

import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

const packages = ['onnxruntime-node', 'onnxruntime-common']
const windows = process.platform === 'win32'

/** Folder of such a copy, as of now. Versions come from npm and are kept in .cache/ort. */
export function checkoutWithOrt(root, version) {
  const folder = join(root, '.cache/ort', version)
  if (!existsSync(join(folder, 'node_modules/onnxruntime-node'))) install(folder, version)
  const checkout = join(folder, 'checkout')
  rmSync(checkout, { recursive: true, force: true })
  mkdirSync(checkout, { recursive: true })
  for (const name of readdirSync(root)) {
    if (!['.git', '.cache', 'node_modules'].includes(name))
      cpSync(join(root, name), join(checkout, name), {
        recursive: true,
        filter: (path) => basename(path) !== 'node_modules', // of packages: links to this checkout
      })
  }
  linkPackages(join(root, 'node_modules'), join(checkout, 'node_modules'), join(folder, 'node_modules'))
  execFileSync(process.execPath, [join(checkout, 'scripts/link-packages.mjs')])
  // Models and images that lie beside the checkout, and the models that the tests make.
  link(join(dirname(root), 'shared'), join(folder, 'shared'))
  link(join(root, '.cache/models'), join(checkout, '.cache/models'))
  return checkout
}

function install(folder, version) {
  console.log(`Installing onnxruntime-node@${version} ...`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  const wanted = packages.map((name) => `${name}@${version}`)
  const options = ['--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error']
  execFileSync('npm', ['install', ...options, ...wanted], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: windows,
  })
}

function linkPackages(from, to, others) {
  for (const name of readdirSync(from)) {
    if (name === '@zerohop') continue
    if (name.startsWith('@')) linkPackages(join(from, name), join(to, name), others)
    else if (!name.startsWith('.')) link(join(packages.includes(name) ? others : from, name), join(to, name))
  }
}

function link(to, at) {
  if (!existsSync(to) || existsSync(at)) return
  mkdirSync(dirname(at), { recursive: true })
  symlinkSync(to, at, 'junction')
}
