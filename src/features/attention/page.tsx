import type { z } from 'zod';
import { Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import { Icon } from '../../dashboard/web/kit/pill.tsx';
import { Message } from '../../dashboard/web/kit/time.tsx';
import type { Look } from '../../dashboard/web/looks.ts';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import type { attentionSchema } from './service.ts';

type Attention = z.output<typeof attentionSchema>;

function AttentionPanel() {
  const attention = useResource<readonly Attention[]>('/attention', {
    refreshOn: ['attention.changed'],
  });
  return (
    <Panel title="Needs attention" isFlush>
      <Loaded of={attention}>{(items) => <AttentionList items={items} />}</Loaded>
    </Panel>
  );
}

const ICONS: Readonly<Record<Attention['severity'], readonly [Look['icon'], string]>> = {
  error: ['cross', 'Error'],
  warning: ['warn', 'Warning'],
  info: ['info', 'Note'],
};

/** Links within the page open here; others, such as the metrics, open in a new tab. */
function AttentionList({ items }: { items: readonly Attention[] }) {
  if (items.length === 0) {
    return (
      <p class="all-well">
        <Icon name="check" />
        Nothing needs attention.
      </p>
    );
  }
  return (
    <ul class="attention">
      {items.map(({ kind, severity, message, link }) => {
        const [icon, name] = ICONS[severity];
        const isPlace = link.startsWith('/flows') && !link.startsWith('/flows/api');
        return (
          <li key={`${kind} ${message}`} class={severity}>
            <Icon name={icon} />
            <span class="unseen">{name}: </span>
            <a href={link} target={isPlace ? undefined : '_blank'} rel="noreferrer">
              <Message text={message} />
            </a>
          </li>
        );
      })}
    </ul>
  );
}

export const attentionPage: PagePart = { name: 'attention', at: { overviewTop: AttentionPanel } };
