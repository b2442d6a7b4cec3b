import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import type { PagePart } from '../../dashboard/web/part.ts';

function SharesRuns({ trigger: { coalesce } }: { readonly trigger: Api['Flow']['triggers'][number] }) {
  if (coalesce === null || coalesce === undefined) return null;
  return (
    <p class="muted">
      One run for deliveries with the same <code>{coalesce.key}</code>: it starts after{' '}
      {format.counted(coalesce.quietSeconds, 'second')} without another, after{' '}
      {format.counted(coalesce.maxSeconds, 'second')} at the latest, or with{' '}
      {format.counted(coalesce.collect, 'delivery', 'deliveries')}.
    </p>
  );
}

export const coalescePage: PagePart = { name: 'coalesce', at: { trigger: SharesRuns } };
