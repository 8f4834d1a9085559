cat > flux-job.batch <<END
#!/bin/bash
flux submit --flags=waitable --error="\${FLUX_OUTPUT_DIR}"/job-1.err --output="\${FLUX_OUTPUT_DIR}"/job-1.out simulate --seed 1
flux submit --flags=waitable --error="\${FLUX_OUTPUT_DIR}"/job-2.err --output="\${FLUX_OUTPUT_DIR}"/job-2.out simulate --seed 2    --label "two words"
flux queue idle
flux jobs -a
flux job wait --all
END
chmod +x flux-job.batch
