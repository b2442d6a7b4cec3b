import { resolve } from 'node:path';
import { NotAFileError, readRegularFileSync } from './read-file.ts';

/** Resolves `env:NAME` or `file:PATH`. The error names the variable or the path, never a value. */
export type SecretReader = (reference: string) => { readonly value: string } | UnreadSecret;

export interface UnreadSecret {
  readonly error: string;
  /** Whoever wrote the reference may not read it, whether it exists or not. */
  readonly isForbidden?: true;
}

const MAX_FILE_BYTES = 65_536;

export function secretReader(options: {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative paths start here. */
  readonly baseFolder: string;
}): SecretReader {
  return (reference) => {
    const { kind, place } = parseReference(reference);
    if (place === '') return { error: 'names no secret; env:NAME and file:PATH do' };
    return kind === 'env' ? readVariable(place, options.env) : readFile(place, options.baseFolder);
  };
}

/** The kind is undefined, and the place empty, for what is not a reference. */
export function parseReference(reference: string): { kind: 'env' | 'file' | undefined; place: string } {
  const [, kind, place = ''] = /^(env|file):(.*)$/is.exec(reference) ?? [];
  if (kind === undefined) return { kind: undefined, place };
  return { kind: kind.toLowerCase() === 'env' ? 'env' : 'file', place };
}

function readVariable(name: string, env: Readonly<Record<string, string | undefined>>) {
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value === undefined) return { error: `the environment variable ${name} is not set` };
  return value === '' ? { error: `the environment variable ${name} is empty` } : { value };
}

function readFile(path: string, baseFolder: string) {
  const file = resolve(baseFolder, path);
  try {
    const bytes = readRegularFileSync(file, MAX_FILE_BYTES);
    // A key that is not text would be read as something else; it has to be encoded.
    const value = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '');
    return value === '' ? { error: `the file ${path} is empty` } : { value };
  } catch (error) {
    if (error instanceof NotAFileError) return { error: `${path} ${error.message}` };
    return { error: `the file ${path} cannot be read: ${codeOf(error)}` };
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
}
