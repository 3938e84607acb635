import { open } from 'node:fs/promises'
import { extname } from 'node:path'
import { createInterface } from 'node:readline'
import { parse } from 'csv-parse'
import { stringify } from 'csv-stringify/sync'

/** How a file of results begins, which files can have a row, how that is written, and whose rows there are. One row is one line. */
const formats = {
  '.csv': {
    header: 'file,label,score\n',
    begins: 'file,label,score\n',
    takes: (file) => !/[\r\n]/.test(file),
    line: ({ file, label, score }) => stringify([[file, label, score]]),
    async *files(stream) {
      for await (const [file] of stream.pipe(parse({ from: 2 }))) yield file
    },
  },
  '.jsonl': {
    header: '',
    begins: '{"file":',
    takes: () => true,
    // Readers of lines, such as Node's, take these two for ends of lines.
    line: (row) => `${JSON.stringify(row).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`,
    async *files(stream) {
      for await (const line of createInterface({ input: stream })) yield JSON.parse(line).file
    },
  },
}

/** Opens a file of results to go on with it, or makes it. Each row is in it as soon as `add()` is done, whatever becomes of the process. */
export async function openResults(path) {
  const format = formats[extname(path)]
  if (format === undefined)
    throw new Error(`${path}: expected a file of type ${Object.keys(formats).join(' or ')}`)
  const handle = await open(path, 'a+')
  try {
    await checkBeginning(handle, path, format.begins)
    let size = await dropUnfinishedLine(handle)
    const done = await filesDone(handle, path, format)
    const append = async (line) => {
      // Two that write to one file would give images two rows each.
      if ((await handle.stat()).size !== size)
        throw new Error(
          `${path}: expected to be written by this process alone, and it was changed meanwhile. Start it again when no other one writes to it`,
        )
      await handle.appendFile(line)
      size += Buffer.byteLength(line)
    }
    if (size === 0) await append(format.header)
    return {
      /** The files that had a row. */
      done,
      takes: format.takes,
      add: (row) => append(format.line(row)),
      close: () => handle.close(),
    }
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** What is not ours is not written to. */
async function checkBeginning(handle, path, begins) {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(begins.length), 0, begins.length, 0)
  const beginning = buffer.toString('utf8', 0, bytesRead)
  if (!begins.startsWith(beginning))
    throw new Error(
      `${path}: expected results, which begin with ${begins.trim()}, received ${JSON.stringify(beginning)}. Name another file`,
    )
}

async function filesDone(handle, path, format) {
  const done = new Set()
  try {
    for await (const file of format.files(handle.createReadStream({ start: 0, autoClose: false })))
      done.add(file)
  } catch (cause) {
    throw new Error(
      `${path}: expected rows as they are written here, and one after ${done.size} is not (${cause.message}). Mend it, or name another file`,
      { cause },
    )
  }
  return done
}

/** A process that was killed may have written half a line. Returns how many bytes are left. */
async function dropUnfinishedLine(handle) {
  const buffer = Buffer.alloc(64 * 1024)
  const { size } = await handle.stat()
  let wholeLines = 0
  for (let end = size; end > 0 && wholeLines === 0; end -= buffer.length) {
    const start = Math.max(0, end - buffer.length)
    const { bytesRead } = await handle.read(buffer, 0, end - start, start)
    const newline = buffer.subarray(0, bytesRead).lastIndexOf('\n')
    if (newline >= 0) wholeLines = start + newline + 1
  }
  if (wholeLines < size) await handle.truncate(wholeLines)
  return wholeLines
}
