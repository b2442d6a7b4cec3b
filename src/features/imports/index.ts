import { readHookdeck } from './hookdeck.ts';
import { type Imported, NotReadable } from './imported.ts';
import { readN8n } from './n8n.ts';
import { readNgrok } from './ngrok.ts';
import { readSvix } from './svix.ts';

/** Services whose exports `new --from` reads. */
export const IMPORTED_KINDS = ['hookdeck', 'svix', 'n8n', 'ngrok'] as const;
export type ImportedKind = (typeof IMPORTED_KINDS)[number];

/** Reads the document of each service's export. */
const EXPORTS: Readonly<Record<ImportedKind, (document: unknown) => Imported>> = {
  hookdeck: readHookdeck,
  svix: readSvix,
  n8n: readN8n,
  ngrok: readNgrok,
};

/** Reads JSON as an export. Throws `NotReadable`. */
export function readImport(kind: ImportedKind, text: string): Imported {
  const found = EXPORTS[kind](documentIn(text, kind));
  if (found.triggers.length > MOST_TRIGGERS)
    throw new NotReadable(`has ${found.triggers.length} triggers, and at most ${MOST_TRIGGERS} are taken over at once`);
  return found;
}

/** Each trigger becomes a file. */
const MOST_TRIGGERS = 1000;

function documentIn(text: string, kind: ImportedKind): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // The message quotes the text, which has secrets.
  }
  // Most policies are YAML; its parser would add 35 kB to the package.
  const hint = kind === 'ngrok' ? '; convert YAML with: npx js-yaml@4 FILE.yml > FILE.json' : '';
  throw new NotReadable(`has no JSON object or list${hint}`);
}
