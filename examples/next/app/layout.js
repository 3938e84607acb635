import './style.css'

export const metadata = { title: 'What is in a picture?' }

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  )
}
