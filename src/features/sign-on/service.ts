import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { Settings } from '../../config/settings-schema.ts';
import type { Actor } from '../../dashboard/credentials.ts';
import type { Logins } from '../../dashboard/logins.ts';
import { type ServicePart, servicePart } from '../../dashboard/services.ts';
import { HttpError } from '../../errors.ts';

/** Lower-case names of the headers in which a proxy names a person, and the person's groups. */
interface SignOnHeaders {
  readonly user: string;
  readonly groups: string;
}

/** A person whom the operator's proxy signed in. */
interface Person {
  readonly name: string;
  readonly groups: readonly string[];
}

const PERSON = 'person';

/**
 * Removes the two headers from every request before anything else reads it, and stores their values if a trusted proxy
 * sent it. So nobody else can set them, and no delivery, run or dry run contains the name of a person.
 */
const takeSignOnHeaders: ServicePart['prepareServer'] = (server, { settings, senderAddress }) => {
  const headers = headersOf(settings);
  if (headers === undefined) return;
  server.decorateRequest(PERSON);
  server.addHook('onRequest', (request, _reply, done) => {
    const { raw } = request;
    const said = readAndDrop(raw, headers);
    if (said !== undefined && senderAddress.isTrustedPeer(raw.socket.remoteAddress ?? '')) {
      request.setDecorator(PERSON, personOf(said, headers));
    }
    done();
  });
};

/** Lets in who was signed in, with the rights of their groups. */
const signOnWay: ServicePart['wayIn'] = ({ settings }, { logins }) => {
  if (headersOf(settings) === undefined) return undefined;
  return {
    async whoSent(request) {
      const person = personWhoSent(request);
      if (person === undefined) return undefined;
      const { name } = person;
      if (logins.credentials.isTaken(name)) {
        const message = `${name} is the name of a token or of Sluice itself, and of no person`;
        return { refusal: new HttpError('insufficient_scope', message) };
      }
      const actor = actorFor(person, logins);
      if (actor.grants.length > 0) return { actor };
      return {
        actor,
        refusal: new HttpError('insufficient_scope', `None of the groups of ${name} may do anything here`),
      };
    },
  };
};

function actorFor({ name, groups }: Person, { credentials }: Logins): Actor {
  return {
    name,
    grants: credentials.grantsOf(groups),
    credential: `person ${name}`,
    standing() {
      const grants = credentials.isTaken(name) ? [] : credentials.grantsOf(groups);
      return grants.length === 0 ? undefined : JSON.stringify(grants);
    },
  };
}

function headersOf({ authUserHeader, authGroupsHeader }: Settings): SignOnHeaders | undefined {
  if (authUserHeader === undefined || authGroupsHeader === undefined) return undefined;
  return { user: authUserHeader, groups: authGroupsHeader };
}

/** The person whom a trusted proxy named; undefined if nobody signed in, or if the headers contradict each other. */
function personWhoSent(request: FastifyRequest): Person | undefined {
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

export const signOn = servicePart({ name: 'sign-on', prepareServer: takeSignOnHeaders, wayIn: signOnWay });
