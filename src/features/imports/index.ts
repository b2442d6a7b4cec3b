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

/** Reads JSON or YAML as an export. Throws `NotReadable`. */
export async function readImport(kind: ImportedKind, text: string): Promise<Imported> {
  const document = await documentIn(text);
  if (document === undefined) throw new NotReadable('is neither JSON nor YAML');
  const found = EXPORTS[kind](document);
  if (found.triggers.length > MOST_TRIGGERS)
    throw new NotReadable(`has ${found.triggers.length} triggers, and at most ${MOST_TRIGGERS} are taken over at once`);
  return found;
}

/** Each trigger becomes a file. */
const MOST_TRIGGERS = 1000;

/** Undefined if the text is neither JSON nor YAML with members or a list. */
async function documentIn(text: string): Promise<object | undefined> {
  const { parse } = await import('yaml');
  const read = (how: (text: string) => unknown): object | undefined => {
    try {
      const value = how(text);
      return typeof value === 'object' && value !== null ? value : undefined;
    } catch {
      return undefined;
    }
  };
  return read(JSON.parse) ?? read((yaml) => parse(yaml, { logLevel: 'error' }));
}
