import type { Api } from '../../dashboard/web/api-types.ts';
import type { PagePart } from '../../dashboard/web/part.ts';

function FetchedFrom({ trigger: { reconcile } }: { readonly trigger: Api['Flow']['triggers'][number] }) {
  if (reconcile === null || reconcile === undefined) return null;
  return (
    <p class="muted">
      Deliveries that never arrived are fetched from {reconcile.from} (asked every <code>{reconcile.every}</code>)
      {reconcile.acceptUnsigned ? '; what is not signed is taken too.' : '.'}
    </p>
  );
}

export const reconcilePage: PagePart = { name: 'reconcile', at: { trigger: FetchedFrom } };
