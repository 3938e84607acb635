export function usersEnvironment(environment?: NodeJS.ProcessEnv): Record<string, string | undefined>
