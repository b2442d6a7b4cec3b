/** What the credentials of the reader may do, as the shell of the page says; all without credentials. */
const scopes = document.documentElement.dataset.scopes?.split(' ');

/** Whether a button leads anywhere: the service refuses what the scopes do not have, so none is offered. */
export function may(scope: 'operate' | 'deploy'): boolean {
  return scopes === undefined || scopes.includes(scope);
}

/** Whether the reader sees all flows, and so what is about the whole service. */
export const seesService = document.documentElement.dataset.limited === undefined;
