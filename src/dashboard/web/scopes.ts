/** The scopes of the reader's credentials, from the page's shell; undefined, for all, without credentials. */
const scopes = document.documentElement.dataset.scopes?.split(' ');

/** Whether to offer a button: the service would refuse actions outside of the scopes. */
export function may(scope: 'operate' | 'deploy'): boolean {
  return scopes === undefined || scopes.includes(scope);
}

/** Whether the reader sees all flows, and therefore everything about the whole service. */
export const seesService = document.documentElement.dataset.limited === undefined;
