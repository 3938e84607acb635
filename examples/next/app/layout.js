export const metadata = { title: 'What is in a picture?' }

export default function Layout({ children }) {
  return (
    <html lang="en" style={{ colorScheme: 'light dark', fontFamily: 'system-ui', lineHeight: 1.5 }}>
      <body style={{ maxWidth: '32rem', margin: '2rem auto', padding: '0 1rem' }}>{children}</body>
    </html>
  )
}
