import { createServer, get, type IncomingMessage, type RequestListener, type RequestOptions } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Frame } from '../../src/adapters/inspector/frame.ts'

/** The address of a server with this listener, for the rest of the test. */
export async function listening(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

export function ask(url: string, options: RequestOptions = {}): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => get(url, { agent: false, ...options }, resolve).on('error', reject))
}

export async function textOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  return text
}

/** Server-sent events of an inspector, frame by frame. */
export async function openEvents(
  url: string,
): Promise<{ next(): Promise<Frame>; end(): void; readonly response: IncomingMessage }> {
  const response = await ask(url, { headers: { accept: 'text/event-stream' } })
  const frames = framesOf(response)
  return {
    response,
    next: async () => {
      const { value, done } = await frames.next()
      if (done === true) throw new Error('it has ended')
      return value
    },
    end: () => response.destroy(),
  }
}

async function* framesOf(response: IncomingMessage): AsyncGenerator<Frame, void> {
  let text = ''
  for await (const part of response.setEncoding('utf8')) {
    text += part
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      yield JSON.parse(text.slice('data: '.length, end)) as Frame
      text = text.slice(end + 2)
    }
  }
}
