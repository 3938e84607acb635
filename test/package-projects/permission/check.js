import { spawnSync } from 'node:child_process'

const permission = process.allowedNodeEnvironmentFlags.has('--permission') ? '--permission' : '--experimental-permission'
const { status } = spawnSync(process.execPath, [permission, '--allow-fs-read=*', '--allow-addons', '--allow-worker', 'app.js'], { stdio: 'inherit' })
process.exitCode = status ?? 1
