import { lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { codeOf } from '../model/error-kind.ts';
import { NOT_UTF8, NotAFileError, readRegularFileSync } from './read-file.ts';

/** Resolves `env:NAME` or `file:PATH`. The error names the variable or the path, never a value. */
export type SecretReader = (reference: string) => { readonly value: string } | UnreadSecret;

export interface UnreadSecret {
  readonly error: string;
  /** The author of the reference may not read it, whether it exists or not. */
  readonly isForbidden?: true;
}

const MAX_FILE_BYTES = 65_536;

export function secretReader(options: {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative paths start here. */
  readonly baseFolder: string;
  /** Called with the path of each file before it is read. */
  readonly onFile?: (path: string) => void;
}): SecretReader {
  return (reference) => {
    const { kind, place } = parseReference(reference);
    if (place === '') return { error: 'does not name a secret; use env:NAME or file:PATH' };
    if (kind === 'env') return readVariable(place, options.env);
    options.onFile?.(resolve(options.baseFolder, place));
    return readFile(place, options.baseFolder);
  };
}

/** The value of a reference, or a literal unchanged. */
export function resolveSecret(text: string, readSecret: SecretReader): { value: string } | UnreadSecret {
  return isReference(text) ? readSecret(text) : { value: text };
}

export function isReference(text: string): boolean {
  return /^(env|file):/i.test(text);
}

/** For text that is not a reference, the kind is undefined and the place empty. */
function parseReference(reference: string): { kind: 'env' | 'file' | undefined; place: string } {
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
    // A key that is not text would be decoded wrongly, so it must be encoded.
    const value = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '');
    return value === '' ? { error: `the file ${path} is empty` } : { value };
  } catch (error) {
    if (error instanceof NotAFileError) return { error: `${path} ${error.message}` };
    if (codeOf(error) === 'ERR_ENCODING_INVALID_ENCODED_DATA') return { error: `the file ${path} ${NOT_UTF8}` };
    return { error: `the file ${path} cannot be read: ${codeOf(error)}` };
  }
}

/** The secrets of the process that manifests from outside the folder can reference. */
interface SecretAllowance {
  /** Reads only allowed references. Refuses others without reading, with the same message whether they exist or not. */
  readonly readSecret: SecretReader;
  /** By default, allows the references of the folder's manifests; these replace the previous ones. */
  useFolder(references: readonly string[]): void;
}

/** Names that show their purpose. */
const DEFAULT_NAMES = ['SECRET_*'];

export function secretAllowance(options: {
  /** The operator's list: `env:` names with `*` and `?`, and `file:` folders or files; undefined for the default. */
  readonly entries: readonly string[] | undefined;
  readonly readSecret: SecretReader;
  /** Relative paths start here, both in the list and in references. */
  readonly baseFolder: string;
}): SecretAllowance {
  const { entries = DEFAULT_NAMES, readSecret, baseFolder } = options;
  const listed = entries.map(readEntry);
  const names = listed.flatMap((entry) => ('name' in entry ? [matcherOf(entry.name)] : []));
  const places = listed.flatMap((entry) => ('place' in entry ? [entry.place] : []));
  let folderNames: ReadonlySet<string> = new Set();
  let folderPlaces: readonly string[] = [];
  const isAllowed = (reference: string): boolean => {
    const { kind, place } = parseReference(reference);
    if (kind === 'env') return folderNames.has(place) || names.some((matches) => matches(place));
    return isWithin(
      resolve(baseFolder, place),
      [...places, ...folderPlaces].map((each) => resolve(baseFolder, each)),
    );
  };
  return {
    readSecret(reference) {
      if (parseReference(reference).place === '' || isAllowed(reference)) return readSecret(reference);
      return { error: refusalOf(reference, options.entries === undefined), isForbidden: true };
    },
    useFolder(references) {
      if (options.entries !== undefined) return;
      const found = references.map(parseReference);
      folderNames = new Set(found.flatMap(({ kind, place }) => (kind === 'env' ? [place] : [])));
      folderPlaces = found.flatMap(({ kind, place }) => (kind === 'file' ? [place] : []));
    },
  };
}

/** Reads `env:NAME` and `file:PLACE`; without a prefix, an entry with a slash is a place. */
function readEntry(entry: string): { readonly name: string } | { readonly place: string } {
  const { kind, place } = parseReference(entry);
  if (kind === 'env') return { name: place };
  if (kind === 'file') return { place };
  return /[/\\]/.test(entry) ? { place: entry } : { name: entry };
}

/** Whether an entry of the list is valid. An invalid entry would silently allow nothing. */
export function isSecretEntry(entry: string): boolean {
  const read = readEntry(entry);
  if ('place' in read) return read.place !== '';
  return /^[\w*?.()-]+$/.test(read.name) && !(isOwn(read.name) && /[*?]/.test(read.name));
}

/** Whether the list allows every variable of the process, or every file. */
export function allowsEverything(entries: readonly string[]): boolean {
  return entries
    .map(readEntry)
    .some((entry) => ('name' in entry ? /^\*+$/.test(entry.name) : resolve('/', entry.place) === '/'));
}

/** The service's own settings, including the store key and the dashboard's credentials. */
const isOwn = (name: string) => name.toUpperCase().startsWith('SLUICE_');

/** Wildcards never match the service's own settings: otherwise every deployer could read the store key. */
function matcherOf(name: string): (variable: string) => boolean {
  const glob = globOf(name);
  return (variable) => variable === name || (!isOwn(variable) && glob.test(variable));
}

function globOf(name: string): RegExp {
  const parts = name.split(/([*?])/).map((part) => {
    if (part === '*') return '.*';
    return part === '?' ? '.' : part.replace(/[\\^$.|+()[\]{}]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}$`, 's');
}

function refusalOf(reference: string, isDefault: boolean): string {
  const what = `${reference} may not be referenced by a manifest that was deployed over the API`;
  return isDefault
    ? `${what}; put the manifest into the folder of the service, or set SLUICE_MANIFEST_SECRETS to a list that contains ${reference} (it replaces the default, which is SECRET_* and what the manifests in the folder use), and restart`
    : `${what}; add ${reference} to SLUICE_MANIFEST_SECRETS, and restart`;
}

/** Whether a file, with links followed, is or is inside one of the places. Only looks if its written path is inside. */
function isWithin(file: string, places: readonly string[]): boolean {
  return places.some((place) => {
    if (!contains(place, file)) return false;
    const [realPlace, realFile] = [realPathOf(place), realPathOf(file)];
    return realPlace !== undefined && realFile !== undefined && contains(realPlace, realFile);
  });
}

function contains(place: string, file: string): boolean {
  const way = relative(place, file);
  return !isAbsolute(way) && way !== '..' && !/^\.\.[/\\]/.test(way);
}

/**
 * The target of a path, with links followed as far as it exists; undefined for a dangling link, so that an error does
 * not reveal whether its target exists.
 */
function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    if (exists(path) || dirname(path) === path) return undefined;
    const folder = realPathOf(dirname(path));
    return folder && join(folder, basename(path));
  }
}

function exists(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    return false;
  }
}
