import type { Api } from '../../../dashboard/web/api-types.ts';

/** A scheme that belongs to a publisher. */
export type Publisher = Api['Scheme'] & { readonly setUp: NonNullable<Api['Scheme']['setUp']> };

/** The publishers among all schemes, sorted by title. */
export function publishersIn(schemes: readonly Api['Scheme'][]): Publisher[] {
  return schemes
    .filter((scheme): scheme is Publisher => scheme.setUp !== null)
    .toSorted((one, other) => titleOf(one).localeCompare(titleOf(other), 'en'));
}

export const titleOf = ({ title, name }: Pick<Api['Scheme'], 'title' | 'name'>) => title ?? name;

const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, '');

/** Whether one of its names or headers contains the text; only letters and digits count. */
export function publisherMatches(publisher: Publisher, text: string): boolean {
  const wanted = plain(text);
  const names = [publisher.name, titleOf(publisher), ...publisher.aliases, ...publisher.headers];
  return names.some((name) => plain(name).includes(wanted));
}

/** Placeholder for the public address of the service, which its page does not know. */
const HOST = 'https://YOUR-HOST';

/** The URL for the publisher. */
export function urlFor({ setUp }: Publisher): string {
  return `${HOST}/flows/api/webhook/${String(setUp.inputs.webhookSlug)}`;
}

/** A flow with one trigger for the publisher, which logs each delivery. */
export function manifestFor(publisher: Publisher, id: string) {
  const { webhookSlug, ...fields } = publisher.setUp.inputs;
  const url = urlFor(publisher);
  const withUrl = ([field, value]: [string, unknown]) => [field, value === '{URL}' ? url : value];
  const inputs = { webhookSlug, ...Object.fromEntries(Object.entries(fields).map(withUrl)) };
  const title = titleOf(publisher);
  return {
    id,
    name: title,
    version: '1',
    triggers: { [String(webhookSlug)]: { type: 'webhook', inputs } },
    steps: { log: { type: 'LogMessage', inputs: { message: `a delivery of ${title} arrived` } } },
  };
}

/** A piece of the Markdown of set-up steps. */
interface Piece {
  readonly is: 'text' | 'strong' | 'code';
  readonly text: string;
}

/** Links lead to pages that the service does not have: only their text is kept. */
export function piecesOf(markdown: string): Piece[] {
  const found = markdown.match(/\*\*[^*]+\*\*|`[^`]+`|\[[^\]]+\]\([^)]*\)|<https?:[^<>]+>|[^*`[<]+|./gs) ?? [];
  return found.map((piece) => {
    if (/^\*\*[^*]+\*\*$/.test(piece)) return { is: 'strong', text: piece.slice(2, -2) };
    if (/^`[^`]+`$/.test(piece)) return { is: 'code', text: piece.slice(1, -1) };
    if (/^\[[^\]]+\]\(/.test(piece)) return { is: 'text', text: piece.slice(1, piece.indexOf(']')) };
    return { is: 'text', text: /^<https?:/.test(piece) ? piece.slice(1, -1) : piece };
  });
}

/** The addresses in a text, with the text between them. */
export function linksIn(text: string): { readonly text: string; readonly isLink: boolean }[] {
  return text
    .split(/(https:\/\/[^\s,;()<>]+)/)
    .filter((piece) => piece !== '')
    .map((piece) => ({ text: piece, isLink: piece.startsWith('https://') }));
}
