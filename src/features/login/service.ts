import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { tooManyLogins } from '../../dashboard/auth.ts';
import { NOTHING_GIVEN } from '../../dashboard/credentials.ts';
import { type DashboardServices, type ServicePart, servicePart } from '../../dashboard/services.ts';
import type { Door } from '../../dashboard/way-in.ts';
import { escapeHtml } from '../../model/text.ts';
import { cookieNameFor, createSessions, LIFETIME_SECONDS, type Sessions } from './session.ts';
import { loginStore } from './store.ts';

/** Lets in the browsers of those who logged in on the login page. */
const loginWay: ServicePart['wayIn'] = (services, door) => {
  const { credentials } = door.logins;
  const sessions = createSessions(door.logins, { store: services.store.of(loginStore), clock: services.clock });
  return {
    async whoSent(request) {
      const actor = await sessions.find(request.headers.cookie, cookieNameFor(request, services));
      return actor === undefined ? undefined : { actor };
    },
    pageFor(request) {
      // If a name and password are set, browsers ask for them by themselves.
      const isAsked = credentials.hasUser || credentials.list().length === 0;
      if (isAsked || request.headers['sec-fetch-mode'] !== 'navigate') return undefined;
      return `/flows/login?next=${encodeURIComponent(request.url)}`;
    },
    addRoutes: (app) => loginRoutes(app, { door, sessions, services }),
  };
};

interface LoginOptions {
  readonly door: Door;
  readonly sessions: Sessions;
  readonly services: DashboardServices;
}

/** Adds the login page, which needs no login, and the logout. */
function loginRoutes(app: FastifyInstance, { door, sessions, services }: LoginOptions): void {
  const { record, logins } = door;
  const { credentials } = logins;
  const cookieOf = (request: FastifyRequest, value: string, maxAge: number) => {
    const name = cookieNameFor(request, services);
    // Lax, so that a link in an alert opens its page for logged-in users; requests that change something have another
    // guard.
    const attributes = `Max-Age=${maxAge}; Path=/; HttpOnly; SameSite=Lax`;
    return `${name}=${value}; ${attributes}${name.startsWith('__Host-') ? '; Secure' : ''}`;
  };
  const show = (reply: FastifyReply, next: string, problem?: string) =>
    reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', CSP)
      // Under no-referrer a browser sends a form with `Origin: null`, as it does for another site's.
      .header('referrer-policy', 'same-origin')
      .send(loginPage({ next, hasUser: credentials.hasUser, problem, service: escapeHtml(services.serviceName) }));

  app.get('/flows/login', { schema: { hide: true } }, (request, reply) => show(reply, nextOf(request.query)));
  app.post('/flows/login', { schema: { hide: true } }, async (request, reply) => {
    const form = formOf(request);
    const next = nextOf({ next: form.get('next') });
    const given = { ...NOTHING_GIVEN, user: form.get('user') ?? '', password: form.get('password') ?? '' };
    const actor = await door.attempt(request, { ...given, token: form.get('token')?.trim() ?? '' });
    if (actor === 'too many') throw tooManyLogins(reply);
    if (actor === 'wrong') return show(reply.code(401), next, 'These credentials are not correct; try again.');
    await record.loggedIn(request, actor);
    const cookie = cookieOf(request, sessions.begin(actor), LIFETIME_SECONDS);
    return reply.header('set-cookie', cookie).redirect(next, 303);
  });
  app.post('/flows/logout', { schema: { hide: true } }, async (request, reply) => {
    const actor = await sessions.find(request.headers.cookie, cookieNameFor(request, services));
    // A copy of the cookie must not outlive the logout, so the answer waits until the store has it.
    if (actor !== undefined) {
      await sessions.end(actor.session);
      await record.loggedOut(request, actor);
    }
    return reply.header('set-cookie', cookieOf(request, '', 0)).redirect('/flows/login', 303);
  });
}

function formOf({ body }: FastifyRequest): URLSearchParams {
  return new URLSearchParams(Buffer.isBuffer(body) ? body.toString('utf8') : '');
}

/** The page to open after the login; never another site. */
function nextOf(query: unknown): string {
  const { next } = (query ?? {}) as { next?: unknown };
  return typeof next === 'string' && /^\/flows(?:[/?][\w/.?&=%:~+-]*)?$/.test(next) ? next : '/flows';
}

const STYLE = `
  :root { color-scheme: light dark; font: 14px/20px system-ui, sans-serif;
    background: light-dark(#f7f7f9, #0f0f13); color: light-dark(#1a1a21, #ececf1); }
  * { box-sizing: border-box; }
  body { display: grid; min-height: 80vh; place-items: center; margin: 0; }
  form { display: grid; gap: 16px; width: min(22rem, calc(100vw - 32px)); padding: 24px; border-radius: 6px;
    border: 1px solid light-dark(#e3e3e9, #2b2b35); background: light-dark(#ffffff, #17171d); }
  h1 { display: flex; align-items: center; gap: 8px; margin: 0; font-size: 18px; }
  svg { width: 24px; height: 24px; fill: light-dark(#4a41d8, #a39dff); }
  label { display: grid; gap: 4px; font-weight: 500; }
  input, button { font: inherit; padding: 8px 12px; border-radius: 6px; }
  input { border: 1px solid light-dark(#c9c9d3, #43434f); background: transparent; color: inherit; }
  button { border: 0; background: light-dark(#4f46e5, #5a52e0); color: #ffffff; font-weight: 500; cursor: pointer; }
  [role='alert'] { color: light-dark(#b3211f, #ff8d86); margin: 0; }
`;
const CSP = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

interface LoginPage {
  readonly next: string;
  readonly hasUser: boolean;
  readonly problem: string | undefined;
  /** The service's name as HTML. */
  readonly service: string;
}

function loginPage({ next, hasUser, problem, service }: LoginPage): string {
  const field = (name: string, label: string, attributes: string) =>
    `<label>${label}<input name="${name}" ${attributes}></label>`;
  const user = [
    field('user', 'Name', 'autocomplete="username"'),
    field('password', 'Password', 'type="password" autocomplete="current-password"'),
  ];
  const fields = [
    ...(hasUser ? user : []),
    field('token', hasUser ? 'or token' : 'Token', `type="password" autocomplete="off"${hasUser ? '' : ' autofocus'}`),
  ];
  // `next` contains only characters that need no escaping here, except the ampersand.
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · ${service}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<form method="post" action="/flows/login">
<h1><svg viewBox="0 0 32 32" aria-hidden="true"><path d="M5 8h9v16H5zM18 8h9v6h-9zM18 18h9v6h-9z"/></svg>${service}</h1>
${problem === undefined ? '' : `<p role="alert">${problem}</p>`}
<input type="hidden" name="next" value="${next.replaceAll('&', '&amp;')}">
${fields.join('\n')}
<button>Log in</button>
</form>
</main>
</body>
</html>
`;
}

export const login = servicePart({ name: 'login', wayIn: loginWay });
