import type { Redelivery } from '../api-types.ts';
import type { IconName } from '../kit/icon.tsx';
import { Pill, type Tone } from '../kit/pill.tsx';

const OUTCOMES: Readonly<Record<Redelivery['outcome'], readonly [Tone, IconName, string]>> = {
  accepted: ['good', 'check', 'Accepted'],
  'would be accepted': ['good', 'check', 'Would be accepted'],
  'accepted before': ['quiet', 'replay', 'Accepted before'],
  refused: ['bad', 'cross', 'Refused'],
  'not possible': ['quiet', 'off', 'Not possible'],
};

export function OutcomePill({ outcome }: { outcome: Redelivery['outcome'] }) {
  const [tone, icon, text] = OUTCOMES[outcome];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}
