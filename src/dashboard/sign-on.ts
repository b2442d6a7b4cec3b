import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { SignOnHeaders } from '../config/credentials.ts';
import type { ClientAddressReader } from '../webhooks/read-delivery.ts';

/** A person whom the operator's proxy signed in. */
export interface Person {
  readonly name: string;
  readonly groups: readonly string[];
}

const PERSON = 'person';

/**
 * Removes the two headers from every request before anything else reads it, and stores their values if a trusted proxy
 * sent it. So nobody else can set them, and no delivery, run or dry run contains the name of a person.
 */
export function takeSignOnHeaders(
  app: FastifyInstance,
  headers: SignOnHeaders | undefined,
  { isTrustedPeer }: Pick<ClientAddressReader, 'isTrustedPeer'>,
): void {
  app.decorateRequest(PERSON);
  if (headers === undefined) return;
  app.addHook('onRequest', (request, _reply, done) => {
    const { raw } = request;
    const said = readAndDrop(raw, headers);
    if (said !== undefined && isTrustedPeer(raw.socket.remoteAddress ?? '')) {
      request.setDecorator(PERSON, personOf(said, headers));
    }
    done();
  });
}

/** The person whom a trusted proxy named; undefined if nobody signed in, or if the headers contradict each other. */
export function personWhoSent(request: FastifyRequest): Person | undefined {
  return request.getDecorator<Person | undefined>(PERSON);
}

interface Said {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

function readAndDrop(raw: IncomingMessage, { user, groups }: SignOnHeaders): Said | undefined {
  const said = { users: [] as string[], groups: [] as string[] };
  const { rawHeaders, headers } = raw;
  // From the end, because lines are removed.
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    const name = String(rawHeaders[at]).toLowerCase();
    if (name !== user && name !== groups) continue;
    (name === user ? said.users : said.groups).push(String(rawHeaders[at + 1]));
    rawHeaders.splice(at, 2);
  }
  if (said.users.length === 0 && said.groups.length === 0) return undefined;
  delete headers[user];
  delete headers[groups];
  return said;
}

const MAX_NAME_CHARACTERS = 128;
const MAX_GROUPS = 1000;

/** Characters that are invisible or turn text make names look alike; but Persian and Indic names contain joiners. */
const UNSEEN =
  /\p{Cc}|(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}|(?<!\P{ASCII})[\u200c\u200d]|[\u200c\u200d]$/u;

/** A repeated header was written by two parties, one of which is not the proxy: nobody is signed in. */
function personOf({ users, groups }: Said, headers: SignOnHeaders): Person | undefined {
  const [name = '', ...otherNames] = users.map(textOf);
  const [list = '', ...otherLists] = groups.map(textOf);
  if (otherNames.length > 0 || otherLists.length > 0) return undefined;
  if (name === '' || name.length > MAX_NAME_CHARACTERS || UNSEEN.test(name)) return undefined;
  // authentik separates them by bars: docs.goauthentik.io/add-secure-apps/providers/proxy, read 2026-11.
  const separator = headers.groups === 'x-authentik-groups' ? '|' : ',';
  const named = list.split(separator).map((group) => group.trim());
  return { name, groups: [...new Set(named.filter((group) => group !== ''))].slice(0, MAX_GROUPS) };
}

/** Node decodes headers as Latin-1; proxies write names as UTF-8. */
function textOf(value: string): string {
  const bytes = Buffer.from(value, 'latin1');
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim();
  } catch {
    return value.trim();
  }
}
