// What a Node says that cannot require ES modules; newer ones can be told so, while they know the option.
const { match } = require('node:assert/strict')
const { spawnSync } = require('node:child_process')

const option = '--no-experimental-require-module'
const { status, stderr } = spawnSync(process.execPath, [option, '-e', "require('zerohop')"], { encoding: 'utf8' })
if (status === 9) console.log(`this Node has no ${option}`)
else match(stderr, /use `const \{ InferenceEngine \} = await import\('zerohop'\)`/)
