import type { Settings } from './settings-schema.ts';
import { type NamedToken, SCOPES, type Scope } from './tokens.ts';

/** Who may use the dashboard. */
export type DashboardAccess =
  | {
      readonly kind: 'credentials';
      readonly basic?: { readonly user: string; readonly password: string } | undefined;
      /** May do everything. */
      readonly token?: string | undefined;
      readonly tokens?: readonly NamedToken[];
    }
  /** No credentials: anyone on this machine, because the listener is on a loopback address. */
  | { readonly kind: 'loopback' }
  /** No credentials, on purpose: anyone who reaches the listener. */
  | { readonly kind: 'open' };

export type Credentials = Extract<DashboardAccess, { kind: 'credentials' }>;

/** One way to prove who one is. */
export interface Credential {
  /** Its own among all credentials, whatever they are called: what somebody proved is known by this, never by the name. */
  readonly id: string;
  /** Who it is, for people. */
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly secret: { readonly user: string; readonly password: string } | { readonly token: string };
}

type Given = Pick<Settings, 'dashboardUser' | 'dashboardPassword' | 'dashboardToken' | 'tokens'>;

export function hasCredentials({ dashboardPassword, dashboardToken, tokens }: Given): boolean {
  return dashboardPassword !== undefined || dashboardToken !== undefined || tokens.length > 0;
}

/** Who may use the dashboard; the checks of the settings made sure that it is open only on purpose. */
export function dashboardAccess(settings: Given & Pick<Settings, 'dashboardAuth'>): DashboardAccess {
  if (hasCredentials(settings)) return credentialsOf(settings);
  return { kind: settings.dashboardAuth === 'none' ? 'open' : 'loopback' };
}

export function credentialsOf(settings: Given): Credentials {
  const { dashboardUser: user, dashboardPassword: password, dashboardToken: token, tokens } = settings;
  return {
    kind: 'credentials',
    basic: user === undefined || password === undefined ? undefined : { user, password },
    token,
    tokens,
  };
}

/** Every credential; those of the settings have all scopes. */
export function listCredentials({ basic, token, tokens = [] }: Credentials): readonly Credential[] {
  return [
    ...(basic === undefined ? [] : [{ id: 'user', name: basic.user, scopes: SCOPES, secret: basic }]),
    ...(token === undefined ? [] : [{ id: 'token', name: 'token', scopes: SCOPES, secret: { token } }]),
    ...tokens.map((named) => ({ id: `named ${named.name}`, ...named, secret: { token: named.token } })),
  ];
}

/** A line for each name or token that two credentials share: the activity list must say who it was. Quotes no token. */
export function sharedBetween(settings: Given): string[] {
  const { dashboardUser, dashboardToken, tokens } = settings;
  const takenBy = (name: string | undefined) => {
    if (name === 'token' && dashboardToken !== undefined) return ['SLUICE_DASHBOARD_TOKEN'];
    return name === 'anyone' || name === 'unknown' ? ['parties without credentials'] : [];
  };
  const taken = (who: string) => `has the name under which the activity list shows ${who}; choose another`;
  return [
    ...takenBy(dashboardUser).map((who) => `SLUICE_DASHBOARD_USER: ${taken(who)}`),
    ...tokens.flatMap(({ name, token }) => {
      const line = (what: string) => [`SLUICE_TOKENS: the token ${name} ${what}`];
      if (name === dashboardUser) return line('has the same name as SLUICE_DASHBOARD_USER; choose another');
      if (token === dashboardToken) return line('has the same value as SLUICE_DASHBOARD_TOKEN; choose another');
      return takenBy(name).flatMap((who) => line(taken(who)));
    }),
  ];
}
