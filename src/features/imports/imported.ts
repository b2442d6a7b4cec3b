import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { plainName } from '../../model/plain-name.ts';
import { printable } from '../../model/text.ts';
import { BUILT_IN_SCHEMES } from '../../webhooks/schemes/publishers/index.ts';

/** The triggers found in a file of another service. */
export interface Imported {
  readonly triggers: readonly ImportedTrigger[];
  /** Everything that became no trigger, with the reason. Never contains a secret. */
  readonly leftOut: readonly string[];
}

export interface ImportedTrigger {
  /** Its name there. */
  readonly name: string;
  /** A publisher's scheme, whose page has the other fields; or the fields; undefined without verification. */
  readonly verifiedBy: { readonly scheme: string } | { readonly inputs: WebhookInputs } | undefined;
  /** Fields that fit any scheme. */
  readonly inputs?: WebhookInputs;
  /** The value of the file that is the key; undefined if the file has none. */
  readonly key?: ImportedKey | undefined;
  /** Facts worth knowing, and the reader's tasks. */
  readonly notes: readonly string[];
  /** Settings of the file that the manifest lacks. Never contains a secret. */
  readonly notTaken: readonly string[];
}

export interface ImportedKey {
  /** Place of the value, such as `config.auth.webhook_secret_key`; undefined if the file does not have it. */
  readonly at?: string | undefined;
}

/** A file of another kind than expected. */
export class NotReadable extends Error {}

export type Members = Readonly<Record<string, unknown>>;

export function membersOf(value: unknown): Members | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined;
}

/** Empty unless the value is a list. */
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The items of a list that have members. */
export const membersIn = (value: unknown): Members[] =>
  listOf(value)
    .map(membersOf)
    .filter((members) => members !== undefined);

/** A non-empty text. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value : undefined;

/** Exports are shallow; a deeper one was made to be expensive. */
const MOST_LEVELS = 24;

/** All objects in a document, outermost first; `enters` decides from an object and its path whether to look into it. */
export function* objectsIn(
  value: unknown,
  enters: (members: Members, path: readonly string[]) => boolean,
  path: readonly string[] = [],
): Generator<Members> {
  if (path.length > MOST_LEVELS) throw new NotReadable(`the file is nested more than ${MOST_LEVELS} levels deep`);
  const members = membersOf(value);
  if (members !== undefined) {
    yield members;
    if (!enters(members, path)) return;
  }
  for (const [key, child] of Object.entries(members ?? listOf(value))) {
    if (typeof child === 'object' && child !== null) yield* objectsIn(child, enters, [...path, key]);
  }
}

/** The built-in scheme of that name, in any case; undefined if there is none. */
export function schemeCalled(name: string): string | undefined {
  const wanted = plainName(name);
  const found = BUILT_IN_SCHEMES.find((spec) =>
    [spec.name, spec.title, ...(spec.aliases ?? [])].some((known) => plainName(known) === wanted),
  );
  return wanted === '' ? undefined : found?.name;
}

const MOST_CHARACTERS = 60;

/** A name from the file, for a line of text. */
export function quoted(name: string): string {
  const text = printable(name);
  return `"${text.length <= MOST_CHARACTERS ? text : `${text.slice(0, MOST_CHARACTERS - 1)}…`}"`;
}
