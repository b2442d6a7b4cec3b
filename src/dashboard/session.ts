import { createHmac, scryptSync, timingSafeEqual } from 'node:crypto';
import type { DashboardAccess } from '../config/settings.ts';
import { type NamedToken, SCOPES } from '../config/tokens.ts';
import type { Clock } from '../model/clock.ts';
import type { Actor } from './activity.ts';

export type Credentials = Extract<DashboardAccess, { kind: 'credentials' }>;

/** Every token with the person or program it belongs to; the token of the settings has all scopes. */
export function tokensOf({ token, tokens = [] }: Credentials): readonly NamedToken[] {
  return [...(token === undefined ? [] : [{ name: 'token', scopes: SCOPES, token }]), ...tokens];
}

/** Logins of browsers: a cookie that a page of ours sets, so that a token need not be typed into a header. */
export interface Sessions {
  /** The value of a new session's cookie. */
  begin(actor: Actor): string;
  /** Who the session of a Cookie header belongs to, as long as the credential that began it is configured. */
  find(cookies: string | undefined): Actor | undefined;
}

export const COOKIE = 'sluice-session';
export const LIFETIME_SECONDS = 12 * 3600;
/** Slow on purpose: a stolen cookie must not help to guess a password. Once for each credential and process. */
const keyOf = (secret: string) => scryptSync(secret, 'sluice session', 32);

/**
 * Sessions without a table: a cookie says whose it is and until when, under a code that is keyed with that credential. So it
 * survives a restart, is valid at every process with the same credentials, and ends when the credential is taken away.
 */
export function createSessions(credentials: Credentials, clock: Clock): Sessions {
  const { basic } = credentials;
  const holders = [
    ...(basic === undefined ? [] : [{ name: basic.user, scopes: SCOPES, token: `${basic.user}:${basic.password}` }]),
    ...tokensOf(credentials),
  ].map(({ token: secret, ...actor }) => {
    let key: Buffer | undefined;
    const codeOf = (text: string) => {
      key ??= keyOf(secret);
      return createHmac('sha256', key).update(text).digest();
    };
    return { actor, codeOf };
  });
  const holdersNamed = (name: string) => holders.filter(({ actor }) => actor.name === name);
  return {
    begin({ name }) {
      const text = `${Buffer.from(name).toString('base64url')}.${clock.now() + LIFETIME_SECONDS * 1000}`;
      const code = holdersNamed(name)[0]?.codeOf(text) ?? Buffer.alloc(0);
      return `${text}.${code.toString('base64url')}`;
    },
    find(cookies = '') {
      const [, value = ''] = new RegExp(`(?:^|;\\s*)${COOKIE}=([\\w.-]{1,400})(?:;|$)`).exec(cookies) ?? [];
      const [name = '', until = '', code = ''] = value.split('.');
      if (!(Number(until) > clock.now())) return undefined;
      const given = Buffer.from(code, 'base64url');
      return holdersNamed(Buffer.from(name, 'base64url').toString()).find(({ codeOf }) => {
        const expected = codeOf(`${name}.${until}`);
        return given.length === expected.length && timingSafeEqual(given, expected);
      })?.actor;
    },
  };
}
