'use client'

import { useActionState } from 'react'

/** Sends the picture that was chosen, and shows what it is. */
export function ClassifyForm() {
  const [answer, submit, isPending] = useActionState(async (_, form) => classify(form.get('picture')), null)
  return (
    <form action={submit}>
      <input type="file" name="picture" accept="image/*" required aria-label="A picture" /> <button disabled={isPending}>Classify</button>
      <div aria-live="polite">
        {answer?.error && <p role="alert">{answer.error}</p>}
        {answer?.classes && (
          <ol>
            {answer.classes.map(({ label, score }, place) => (
              <li key={place}>
                {label} <meter value={score} /> {(100 * score).toFixed(1)} %
              </li>
            ))}
          </ol>
        )}
      </div>
    </form>
  )
}

async function classify(picture) {
  try {
    const response = await fetch('/api/classify', { method: 'POST', body: picture })
    return response.headers.get('content-type') === 'application/json' ? await response.json() : { error: `It could not be classified (${response.status}).` }
  } catch (error) {
    return { error: error.message }
  }
}
